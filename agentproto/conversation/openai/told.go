package openai

import (
	"strings"

	"github.com/millrace/millrace/agentproto/conversation"
)

// A told is the part of an answer that was reported while it arrived.
type told struct {
	words string
	calls []toldCall
	over  bool // the answer no longer continues what was reported
}

// A toldCall is the reported part of a call.
type toldCall struct {
	id, name string
	args     int // bytes
}

// tell reports what is new in the answer since the last call. If the service takes back what it wrote, by a whole message with a
// different text, nothing more is reported; the reply contains it.
func (a *answer) tell(write func(conversation.Delta)) {
	t := &a.told
	words := a.words()
	if t.over = t.over || !strings.HasPrefix(words, t.words) || len(a.calls) < len(t.calls); t.over {
		return
	}
	if len(words) > len(t.words) {
		more := words[len(t.words):]
		t.words = words
		write(conversation.Delta{Text: more})
	}
	for i, c := range a.calls {
		if i == len(t.calls) {
			t.calls = append(t.calls, toldCall{})
		}
		known, args := &t.calls[i], c.args.String()
		if len(args) < known.args {
			t.over = true
			return
		}
		if c.id == known.id && c.name == known.name && len(args) == known.args {
			continue
		}
		more := args[known.args:]
		*known = toldCall{c.id, c.name, len(args)}
		write(conversation.Delta{Call: &conversation.CallDelta{Index: i, ID: c.id, Name: c.name, Arguments: more}})
	}
}
