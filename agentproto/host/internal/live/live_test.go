package live

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto/conversation"
)

// step returns a writing of round n, whose request had three messages.
func step(n uint64, attempt int, stage conversation.Stage, text string) conversation.Writing {
	return conversation.Writing{Round: n, Attempt: attempt, Messages: 3, Stage: stage, Delta: conversation.Delta{Text: text}}
}

// told formats the parts of a change.
func told(c Change) string {
	var all []string
	for _, p := range c.Parts {
		if p.Reset {
			all = append(all, "reset")
		} else {
			all = append(all, fmt.Sprint(p.Seq, p.Delta.Text))
		}
	}
	return strings.Join(all, " ")
}

// TestWatchers checks that a fast and a slow watcher both receive what was written. No state is left after
// they and the round end.
func TestWatchers(t *testing.T) {
	var h Hub
	fast, slow := h.Watch("t"), h.Watch("t")
	look := func(w *Watcher, next int, want string) {
		t.Helper()
		if got := told(w.Next(next)); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	h.Wrote("t", step(1, 0, conversation.Begins, ""))
	h.Wrote("t", step(1, 0, conversation.Writes, "a"))
	look(fast, 2, "") // the question is not there yet
	look(fast, 3, "0a")
	h.Wrote("t", step(1, 0, conversation.Writes, "b"))
	look(fast, 3, "1b")
	h.Wrote("t", step(1, 1, conversation.Begins, ""))
	h.Wrote("t", step(1, 1, conversation.Writes, "c"))
	look(fast, 3, "reset 0c")
	look(slow, 3, "0c") // it has seen nothing of the first attempt
	h.Wrote("t", step(1, 1, conversation.Writes, "d"))
	h.Wrote("t", step(1, 1, conversation.Answers, ""))
	late := h.Watch("t")
	look(late, 3, "0cd")
	look(fast, 3, "1d")
	for _, w := range []*Watcher{fast, slow, late} {
		w.Superseded(3)
		look(w, 4, "")
	}
	h.Wrote("t", step(2, 0, conversation.Begins, ""))
	h.Wrote("t", step(1, 1, conversation.Writes, "of an old round"))
	h.Wrote("t", step(2, 0, conversation.Writes, strings.Repeat("x", maxBytes)))
	h.Wrote("t", step(2, 0, conversation.Writes, "too much"))
	if c := fast.Next(4); len(c.Parts) != 1 || len(c.Parts[0].Delta.Text) != maxBytes {
		t.Errorf("%d parts", len(c.Parts))
	}
	h.Wrote("t", step(2, 0, conversation.Fails, ""))
	look(fast, 4, "reset")
	look(slow, 4, "")
	for _, w := range []*Watcher{fast, slow, late} {
		w.Close()
	}
	h.View("t", "v", nil)
	h.Touch("t")
	if len(h.threads) != 0 || h.Watchers() != 0 {
		t.Errorf("%d threads are left", len(h.threads))
	}
}
