package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/follow"
)

// told returns the expected conversation of the demo.
func told() *hosts {
	h := &hosts{}
	add := func(kind conversation.Kind, m follow.Message) {
		m.N, m.Kind = len(h.history), kind.String()
		h.history = append(h.history, m)
	}
	result := func(id, text string) {
		add(conversation.Result, follow.Message{ID: id, Content: []agentproto.Content{{Type: agentproto.KindText, Text: text}}})
	}
	ticks := 0
	tick := func() {
		ticks++
		id := fmt.Sprint("event-", ticks)
		add(conversation.Assistant, follow.Message{Calls: []follow.Call{
			{ID: id, Operation: conversation.EventTool, Arguments: fmt.Appendf(nil, `{"final":%t}`, ticks == demoTicks)}}})
		result(id, fmt.Sprint("tick ", ticks))
	}
	add(conversation.Opened, follow.Message{})
	add(conversation.User, follow.Message{Text: request})
	answered := 0
	for i, r := range dialogue {
		if i == 3 || i > 5 {
			tick()
		}
		if ticks == demoTicks && i > 6 {
			add(conversation.Assistant, follow.Message{Text: r.Text})
			break
		}
		m := follow.Message{Text: r.Text}
		for _, c := range r.Calls {
			m.Calls = append(m.Calls, follow.Call{ID: fmt.Sprint(i, c.Name), Operation: c.Name})
		}
		if add(conversation.Assistant, m); i == 3 {
			h.here = len(h.history)
		}
		for _, c := range m.Calls {
			result(c.ID, answers[answered].text)
			answered++
		}
	}
	return h
}

// TestDemoVerdict tests the demo's own verdict: it must detect any error in a
// conversation.
func TestDemoVerdict(t *testing.T) {
	verdict := func(h *hosts) bool {
		_, sum := h.lines()
		sum.Moved, sum.Forwarded = true, 2
		return sum.good()
	}
	h := told()
	if !verdict(h) {
		all, sum := h.lines()
		t.Fatalf("the right conversation is found wrong: %+v\n%+v", sum, all)
	}
	for i := 1; i < len(h.history)-1; i++ {
		lost, twice, other := told(), told(), told()
		lost.history = slices.Delete(lost.history, i, i+1)
		twice.history = slices.Insert(twice.history, i, twice.history[i])
		m := &other.history[i]
		switch {
		case m.Content != nil:
			m.Content[0].Text += "!"
		case m.Text != "":
			m.Text += "!"
		default:
			m.Calls[0].Arguments = []byte(`{"final":"?"}`)
		}
		if m.Text == noted+"!" { // their number depends on the speed of the model
			lost, twice = other, other
		}
		for what, h := range map[string]*hosts{"lost": lost, "twice": twice, "other": other} {
			if verdict(h) {
				t.Errorf("message %d (%s %s): %s, and nobody noticed", i, m.Kind, m.Text, what)
			}
		}
	}
}
