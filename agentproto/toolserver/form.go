package toolserver

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/form"
)

// The choices that stand for a form on runtimes without forms.
const (
	labelDefaults = "Send the defaults"
	labelAccept   = "Accept" // a form without fields
	labelDecline  = "Decline"
)

// maxFillings is how often the user is asked to fill in one form.
const maxFillings = 3

// maxReason is how many bytes of the reason for asking again are shown.
const maxReason = 256

// fill asks the user to fill in a form until the values fit it, at most maxFillings times.
func fill(ctx context.Context, q Question) (Answer, error) {
	if len(q.Choices) > 0 || q.Default != 0 {
		return Answer{}, errors.New("a question has choices or a form")
	}
	encoded, err := q.Form.Encode()
	if err != nil {
		return Answer{}, err
	}
	asked := Question{Name: q.Name, Prompt: q.Prompt, Choices: []string{labelDecline}}
	if asked.Prompt == "" {
		asked.Prompt = messagesOf(&q.Form)
	}
	prompt := asked.Prompt
	defaults, complete := q.Form.Defaults()
	if complete {
		label := labelAccept
		for i := range q.Form.Questions {
			if len(q.Form.Questions[i].Fields) > 0 {
				label = labelDefaults
			}
		}
		asked.Choices, asked.Default = []string{label, labelDecline}, 1
	}
	for range maxFillings {
		a, err := ask(ctx, "Ask", asked, encoded)
		switch {
		case errors.Is(err, ErrBadAnswer):
		case err != nil:
			return Answer{}, err
		case a.Values == nil && a.Selected == asked.Default:
			return Answer{Selected: a.Selected}, nil
		case a.Values == nil:
			return Answer{Selected: a.Selected, Values: defaults}, nil
		default:
			if err = q.Form.Check(a.Values); err == nil {
				for name, v := range a.Values {
					if v == nil {
						delete(a.Values, name)
					}
				}
				return a, nil
			}
		}
		why := "\n(The last answer was not taken: " + agentproto.PlainText(err.Error(), maxReason) + ".)"
		asked.Prompt = prompt + why
		again := q.Form
		again.Questions = slices.Clone(q.Form.Questions)
		again.Questions[max(0, wrongIn(&again, err))].Message += why
		if longer, err := again.Encode(); err == nil {
			encoded = longer
		}
	}
	return Answer{}, ErrBadAnswer
}

// wrongIn returns the index of the question whose answer was wrong, or -1 if it was not a single
// one.
func wrongIn(f *form.Form, err error) int {
	wrong, ok := errors.AsType[*form.ValueError](err)
	return slices.IndexFunc(f.Questions, func(q form.Question) bool { return ok && q.Name == wrong.Question })
}

// messagesOf returns the messages of a form, for runtimes that do not show it.
func messagesOf(f *form.Form) string {
	var all []string
	for i := range f.Questions {
		all = append(all, f.Questions[i].Message)
	}
	return strings.Join(all, "\n")
}
