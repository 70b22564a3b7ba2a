package openai

import (
	"strings"

	"github.com/millrace/millrace/agentproto/conversation"
)

// A streamed is the part of an answer that was reported while it arrived.
type streamed struct {
	words string
	calls []streamedCall
	over  bool // the answer no longer continues what was reported
}

// A streamedCall is the reported part of a call.
type streamedCall struct {
	id, name string
	args     int // bytes
}

// report reports what is new in the answer since the last call. If the service takes back what it wrote, by a whole message with a
// different text, nothing more is reported; the reply contains it.
func (a *answer) report(write func(conversation.Delta)) {
	s := &a.streamed
	words := a.words()
	if s.over = s.over || !strings.HasPrefix(words, s.words) || len(a.calls) < len(s.calls); s.over {
		return
	}
	if len(words) > len(s.words) {
		more := words[len(s.words):]
		s.words = words
		write(conversation.Delta{Text: more})
	}
	for i, c := range a.calls {
		if i == len(s.calls) {
			s.calls = append(s.calls, streamedCall{})
		}
		known, args := &s.calls[i], c.args.String()
		if len(args) < known.args {
			s.over = true
			return
		}
		if c.id == known.id && c.name == known.name && len(args) == known.args {
			continue
		}
		more := args[known.args:]
		*known = streamedCall{c.id, c.name, len(args)}
		write(conversation.Delta{Call: &conversation.CallDelta{Index: i, ID: c.id, Name: c.name, Arguments: more}})
	}
}
