package openai

import (
	"strings"

	"github.com/millrace/millrace/agentproto/conversation"
)

// A told is how much of an answer was told while it came.
type told struct {
	words string
	calls []toldCall
	over  bool // what comes does not go on from what was told
}

// A toldCall is how much was told of a call.
type toldCall struct {
	id, name string
	args     int // bytes
}

// tell tells what is new in the answer since it was called last. Where the service takes back what
// it has written, by a whole message that is another one, nothing more is told: the reply has it.
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
