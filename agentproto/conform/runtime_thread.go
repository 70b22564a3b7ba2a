package conform

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// A trialThread is a thread of the runtime under test.
type trialThread struct {
	t  *runtimeTrial
	id string
}

// call returns a call of the tool echo by the model.
func call(id string) TurnCall { return callOf(id, "echo", map[string]any{"text": "of " + id}) }

func callOf(id, operation string, arguments any) TurnCall {
	return TurnCall{ID: id, Operation: operation, Arguments: arguments}
}

// say makes the model make calls.
func (h *trialThread) say(calls ...TurnCall) {
	h.t.must(h.t.p.Say(h.t.ctx, h.id, Turn{Calls: calls}))
}

// see returns the visible state of the thread.
func (h *trialThread) see() Thread {
	s, err := h.t.p.Thread(h.t.ctx, h.id)
	h.t.must(err)
	return s
}

// exists reports whether the runtime knows the thread.
func (h *trialThread) exists() bool {
	_, err := h.t.p.Thread(h.t.ctx, h.id)
	if e, ok := errors.AsType[*ControlError](err); ok && e.Status == http.StatusNotFound {
		return false
	}
	h.t.must(err)
	return true
}

// interrupt makes the user interrupt.
func (h *trialThread) interrupt() { h.t.must(h.t.p.Interrupt(h.t.ctx, h.id)) }

// close closes the thread.
func (h *trialThread) close() { h.t.must(h.t.p.Close(h.t.ctx, h.id)) }

// child opens a child.
func (h *trialThread) child(id string) *trialThread {
	h.t.needs(PartChildren)
	h.t.must(h.t.p.Child(h.t.ctx, h.id, id))
	return &trialThread{t: h.t, id: id}
}

// answer makes the user answer a prompt; a negative selection dismisses it.
func (h *trialThread) answer(prompt string, selected int) {
	a := Answer{Prompt: prompt}
	if selected >= 0 {
		a.Selected = &selected
	}
	h.t.must(h.t.p.Answer(h.t.ctx, h.id, a))
}

// results returns the results of a call in the history.
func (s Thread) results(id string) (found []Message) { return s.messages(RoleResult, id) }

// messages returns the messages of a role about a call.
func (s Thread) messages(role, id string) (found []Message) {
	for _, m := range s.History {
		if m.Role == role && m.ID == id {
			found = append(found, m)
		}
	}
	return found
}

// pending returns a call without a result, or nil if there is none.
func (s Thread) pending(id string) *PendingCall {
	if i := slices.IndexFunc(s.Calls, func(c PendingCall) bool { return c.ID == id }); i >= 0 {
		return &s.Calls[i]
	}
	return nil
}

// promptsOf returns the open questions to the user for a call.
func (s Thread) promptsOf(id string) (found []Prompt) {
	for _, p := range s.Prompts {
		if p.Call == id {
			found = append(found, p)
		}
	}
	return found
}

// subscribed reports whether the subscription of a call is open.
func (s Thread) subscribed(id string) bool {
	return slices.ContainsFunc(s.Subscriptions, func(x Subscription) bool { return x.Call == id })
}

// text returns the texts of a result, or the text of another message.
func (m Message) text() string {
	var b strings.Builder
	b.WriteString(m.Text)
	for _, c := range m.Content {
		if c.Type == "text" {
			b.WriteString(c.Text)
		}
	}
	return b.String()
}

// failed reports whether a result looks like an error.
func (m Message) failed() bool {
	text := strings.ToLower(m.text())
	return strings.HasPrefix(text, "error") || strings.Contains(text, "interrupt") || strings.Contains(text, "timed out")
}

// result waits for the result of a call and returns it. There must be exactly one.
func (h *trialThread) result(id string) Message {
	var found []Message
	h.t.until(fmt.Sprintf("the call %.40q of thread %q has a result in the history", id, h.id), func() bool {
		found = h.see().results(id)
		return len(found) > 0
	})
	h.t.want(len(found) == 1, "the call %.40q has %d results in the history, not 1: %+v", id, len(found), found)
	return found[0]
}

// resolved requires a call to end with a text.
func (h *trialThread) resolved(id, text string) {
	m := h.result(id)
	h.t.want(m.text() == text, "the result of %q is %.200q, not %.200q", id, m.text(), text)
}

// failed requires a call to end with an error, and returns its text.
func (h *trialThread) failed(id string) string {
	m := h.result(id)
	h.t.want(m.failed(), "the result of %.40q does not say that it is an error: %.200q", id, m.text())
	return m.text()
}

// waits requires a call to be pending, and to stay pending for a short while.
func (h *trialThread) waits(id string) {
	h.t.until(fmt.Sprintf("the call %q is pending", id), func() bool { return h.see().pending(id) != nil })
	h.t.never(fmt.Sprintf("the call %q ends", id), func() bool { return len(h.see().results(id)) > 0 })
}

// unchanged requires the thread's history to stay the same while do is called and shortly after.
func (h *trialThread) unchanged(after string, do func()) {
	before := len(h.see().History)
	do()
	var s Thread
	if h.t.poll(settling, func() bool { s = h.see(); return len(s.History) != before }) {
		h.t.failf("the history changed after %s: %+v", after, s.History[min(before, len(s.History)):])
	}
}

// prompt waits for the prompt of a call. There must be exactly one.
func (h *trialThread) prompt(id string) Prompt {
	var found []Prompt
	h.t.until(fmt.Sprintf("the user is asked for the call %q", id), func() bool {
		found = h.see().promptsOf(id)
		return len(found) > 0
	})
	h.t.want(len(found) == 1, "the user is asked %d times for the call %q: %+v", len(found), id, found)
	return found[0]
}

// unasked waits until no prompt of a call is open.
func (h *trialThread) unasked(id string) {
	h.t.until(fmt.Sprintf("the prompt of the call %q is withdrawn", id), func() bool { return len(h.see().promptsOf(id)) == 0 })
}

// events waits for n events of a subscription and returns their texts. There must not be more.
func (h *trialThread) events(id string, n int) []string {
	var texts []string
	h.t.until(fmt.Sprintf("%d events of %q in the history of %q", n, id, h.id), func() bool {
		texts = nil
		for _, m := range h.see().messages(RoleEvent, id) {
			texts = append(texts, m.text())
		}
		return len(texts) >= n
	})
	h.t.want(len(texts) == n, "%d events of %q are in the history, not %d: %.300q", len(texts), id, n, texts)
	return texts
}
