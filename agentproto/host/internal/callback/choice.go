package callback

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/form"
)

// How long the texts of a choice may be. A longer question is cut; but what a user would not see of a
// choice must not be chosen. See threats 30 and 31 of doc/threats.md.
const (
	MaxPrompt  = 4 << 10
	MaxLabel   = 1 << 10
	MaxChoices = 256
)

// plainForm returns a form as users are shown it, or nil: what is no form, or is one that users must not be shown, is an extension
// of somebody else's, and they are shown the choices.
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

// plainChoice returns a prompt as users are shown it, or what is wrong with it: labels that
// cannot be told apart, or are more than somebody reads.
func plainChoice(c *agentproto.UserChoice) (*agentproto.UserChoice, string) {
	if len(c.Choices) > MaxChoices {
		return nil, "there are more choices than anybody reads"
	}
	plain := *c
	plain.Prompt = agentproto.PlainText(c.Prompt, MaxPrompt)
	plain.Choices = make([]string, len(c.Choices))
	sent := map[string]string{} // by what is shown of it
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
