package openai

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/sashabaranov/go-openai"

	"github.com/millrace/millrace/agentproto/conversation"
)

// An answer is put together from the parts in which it comes.
type answer struct {
	text, refusal strings.Builder
	calls         []conversation.Call
	size          int // of all texts together
	finished      bool
}

var (
	errParts = errors.New("the model's service sent an answer whose parts do not fit together")
	errLong  = fmt.Errorf("the model's service sent an answer of more than %d bytes or %d calls", maxSize, maxCalls)
)

// An answer is kept until it is complete, so its texts and calls are bounded.
const maxSize, maxCalls = 16 << 20, 1024

// add takes in a part: more of the text, or of a call, which is named by its place.
func (a *answer) add(part *openai.ChatCompletionStreamResponse) error {
	for i := range part.Choices {
		choice := &part.Choices[i]
		if choice.Index != 0 {
			continue // nobody asked for alternatives
		}
		a.text.WriteString(choice.Delta.Content)
		a.refusal.WriteString(choice.Delta.Refusal)
		a.size += len(choice.Delta.Content) + len(choice.Delta.Refusal)
		for _, c := range choice.Delta.ToolCalls {
			at := len(a.calls)
			if c.Index != nil {
				at = *c.Index
			}
			if at < 0 || at > len(a.calls) {
				return errParts
			}
			if at == len(a.calls) {
				a.calls = append(a.calls, conversation.Call{})
			}
			call := &a.calls[at]
			call.ID = cmp.Or(call.ID, c.ID)
			call.Name += c.Function.Name
			call.Arguments += c.Function.Arguments
			a.size += len(c.ID) + len(c.Function.Name) + len(c.Function.Arguments)
		}
		if a.size > maxSize || len(a.calls) > maxCalls {
			return errLong
		}
		a.finished = a.finished || choice.FinishReason != ""
	}
	return nil
}

// reply returns the whole, which has to be complete.
func (a *answer) reply() (*conversation.Reply, error) {
	if !a.finished {
		return nil, errors.New("the model's service broke off its answer")
	}
	return &conversation.Reply{Text: cmp.Or(a.text.String(), a.refusal.String()), Calls: a.calls}, nil
}
