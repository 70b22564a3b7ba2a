package discovery

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
)

// maxDescription is how long a description may be; what is longer is cut. See threats 30 and 31 of
// doc/threats.md.
const maxDescription = 16 << 10

// plainTool returns a tool as models are shown it: without anything hidden in its
// description and in the words of its schema. Arguments are checked against the schema as
// it was sent.
func plainTool(t agentproto.Tool) agentproto.Tool {
	t.Description = agentproto.PlainText(t.Description, maxDescription)
	t.InputSchema = plainSchema(t.InputSchema)
	return t
}

// schemaWords are the members of a schema that say something and mean nothing.
var schemaWords = map[string]bool{"title": true, "description": true, "$comment": true}

// plainSchema returns a schema whose descriptions have nothing hidden. One that is as it
// should be stays the same to the byte.
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
			return schema // was compiled, so this does not happen
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
