package host

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
)

// How long the texts of tool servers may be that users and models are shown. What is longer
// is cut, but for choices: what a user would not see of a choice must not be chosen.
// See threats 30 and 31 of doc/threats.md.
const (
	maxDescription = 16 << 10
	maxPrompt      = 4 << 10
	maxLabel       = 1 << 10
	maxChoices     = 256
)

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

// plainChoice returns a prompt as users are shown it, or what is wrong with it: labels that
// cannot be told apart, or are more than somebody reads.
func plainChoice(c *agentproto.UserChoice) (*agentproto.UserChoice, string) {
	if len(c.Choices) > maxChoices {
		return nil, "there are more choices than anybody reads"
	}
	plain := *c
	plain.Prompt = agentproto.PlainText(c.Prompt, maxPrompt)
	plain.Choices = make([]string, len(c.Choices))
	sent := map[string]string{} // by what is shown of it
	for i, label := range c.Choices {
		if len(label) > maxLabel {
			return nil, "a choice is too long to be read"
		}
		shown := strings.TrimSpace(strings.Join(strings.Fields(agentproto.PlainText(label, maxLabel)), " "))
		if shown == "" {
			return nil, "a choice has nothing that can be seen"
		}
		if other, ok := sent[shown]; ok && other != label {
			return nil, "two choices look the same"
		}
		sent[shown], plain.Choices[i] = label, shown
	}
	return &plain, ""
}
