package callback

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/form"
)

// The limits of the texts of a choice. A longer question is cut. A longer label is refused, because a user must not choose
// something that is not fully shown. See threats 30 and 31 of doc/threats.md.
const (
	MaxPrompt  = 4 << 10
	MaxLabel   = 1 << 10
	MaxChoices = 256
)

// plainForm returns a form as users are shown it, or nil. It returns nil for an invalid form, or one that users must not be
// shown: the member may be somebody else's extension, and the user is shown the choices.
func plainForm(sent jsontext.Value) jsontext.Value {
	if sent == nil {
		return nil
	}
	f, err := form.Parse(sent)
	if err != nil {
		return nil
	}
	plain, err := f.Encode()
	if err != nil {
		return nil
	}
	return plain
}

// plainChoice returns a prompt as users are shown it, or what is wrong with it: labels that look alike, or too much text to read.
func plainChoice(c *agentproto.UserChoice) (*agentproto.UserChoice, string) {
	if len(c.Choices) > MaxChoices {
		return nil, "there are more choices than anybody reads"
	}
	plain := *c
	plain.Prompt = agentproto.PlainText(c.Prompt, MaxPrompt)
	plain.Choices = make([]string, len(c.Choices))
	sent := map[string]string{} // the labels as sent, by the labels as shown
	for i, label := range c.Choices {
		if len(label) > MaxLabel {
			return nil, "a choice is too long to be read"
		}
		shown := strings.TrimSpace(strings.Join(strings.Fields(agentproto.PlainText(label, MaxLabel)), " "))
		if shown == "" {
			return nil, "a choice has nothing that can be seen"
		}
		if other, ok := sent[shown]; ok && other != label {
			return nil, "two choices look the same"
		}
		sent[shown], plain.Choices[i] = label, shown
	}
	plain.Form = plainForm(c.Form)
	return &plain, ""
}
