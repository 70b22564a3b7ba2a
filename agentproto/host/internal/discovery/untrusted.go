package discovery

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
)

// maxDescription is the length in bytes at which a description is cut. See threats 30 and 31 of doc/threats.md.
const maxDescription = 16 << 10

// plainTool returns a tool as models are shown it: without hidden characters in its description and in the texts of its schema.
// Arguments are checked against the original schema.
func plainTool(t agentproto.Tool) agentproto.Tool {
	t.Description = agentproto.PlainText(t.Description, maxDescription)
	t.InputSchema = plainSchema(t.InputSchema)
	return t
}

// schemaWords are the members of a schema that contain text without effect on validation.
var schemaWords = map[string]bool{"title": true, "description": true, "$comment": true}

// plainSchema returns a schema without hidden characters in its texts. If there are none, it returns the same bytes.
func plainSchema(schema jsontext.Value) jsontext.Value {
	var out bytes.Buffer
	read, write := jsontext.NewDecoder(bytes.NewReader(schema)), jsontext.NewEncoder(&out)
	changed := false
	for {
		kind, length := read.StackIndex(read.StackDepth())
		word := kind == '{' && length%2 == 1 && schemaWords[read.StackPointer().LastToken()]
		token, err := read.ReadToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return schema // cannot happen: the schema was compiled
		}
		if word && token.Kind() == '"' {
			said := token.String()
			if plain := agentproto.PlainText(said, maxDescription); plain != said {
				token, changed = jsontext.String(plain), true
			}
		}
		if write.WriteToken(token) != nil {
			return schema
		}
	}
	if !changed {
		return schema
	}
	return bytes.TrimSpace(out.Bytes())
}
