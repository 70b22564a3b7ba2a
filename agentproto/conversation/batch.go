package conversation

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/ids"
)

func sprintf(format string, args ...any) string {
	if len(args) == 0 {
		return format
	}
	return fmt.Sprintf(format, args...)
}

// maxID is the maximum length of an identifier made by the model. Identifiers are parts of URLs.
const maxID = 100

// name gives each call of a reply an identifier that was not used in the thread before. See doc/protocol.md §1.2, case I14.
func (t *turn) name(calls []Call) []Call {
	named := slices.Clone(calls)
	for i := range named {
		id := named[i].ID
		if !usable(id) {
			id = fmt.Sprintf("call-%d-%d", t.s.Round, i+1)
		}
		named[i].ID = t.unused(id, i)
	}
	return named
}

// manyIDs is how many identifiers of calls are remembered at least.
const manyIDs = 4096

// unused returns an identifier for call i of a round that no earlier call has: id if it is unused. If some identifiers are no
// longer remembered, the result contains the number of the round.
func (t *turn) unused(id string, i int) string {
	s := t.s
	free := id
	if s.Forgot {
		free = fmt.Sprintf("%s-%d-%d", id, s.Round, s.Messages+i)
	}
	for n := 2; s.Used[free] || s.UsedBefore[free]; n++ {
		free = fmt.Sprintf("%s-%d", id, n)
	}
	if len(s.Used) >= manyIDs {
		s.Forgot = s.UsedBefore != nil
		s.UsedBefore, s.Used = s.Used, map[string]bool{}
	}
	s.Used[free] = true
	return free
}

func usable(id string) bool {
	return len(id) <= maxID && ids.Reason(id) == ""
}

// builtin returns the result of a call that the conversation answers itself, immediately. It returns nil for other calls.
func (t *turn) builtin(c Call) *ToolResult {
	if c.Alias != "" { // a tool of a toolset with the same name
		return nil
	}
	switch c.Name {
	case EventTool:
		return textResult(c.ID, "Error: %s shows what came in and cannot be called", EventTool)
	case CancelTool:
		var args struct {
			ToolCallID string `json:"tool_call_id"`
		}
		if err := json.Unmarshal([]byte(c.Arguments), &args); err != nil || args.ToolCallID == "" {
			return textResult(c.ID, "Error: %s needs the tool_call_id of a subscription", CancelTool)
		}
		if !t.unsubscribe(args.ToolCallID) {
			return textResult(c.ID, "Error: this thread has no subscription with the tool_call_id %q", args.ToolCallID)
		}
		return textResult(c.ID, "The subscription is cancelled.")
	}
	return nil
}

// unsubscribe ends a subscription of the thread. It reports false if the subscription does not exist.
func (t *turn) unsubscribe(id string) bool {
	i := t.subscription(id)
	if i < 0 {
		return false
	}
	t.perform(Action{Kind: EndSubscription, Call: t.callOf(Call{ID: id})})
	t.s.Subscriptions = slices.Delete(t.s.Subscriptions, i, i+1)
	t.s.Deferred = slices.DeleteFunc(t.s.Deferred, func(e Event) bool { return e.Result == nil && !e.Foreign && e.Call.ID == id })
	delete(t.s.LeftOut, id)
	t.welcome()
	return true
}

// subscription returns the index of a subscription, or -1.
func (t *turn) subscription(id string) int {
	return slices.IndexFunc(t.s.Subscriptions, func(s Subscription) bool { return s.Call.ID == id })
}

// happen handles an event. If the model is idle it is told at once, otherwise when the pending calls are settled: cases S02 and
// S07.
func (t *turn) happen(e Event) {
	e.Text = cut(e.Text, t.limits.Text)
	if e.Foreign {
		t.postpone(e)
		t.advance()
		return
	}
	i := t.subscription(e.Call.ID)
	if i < 0 { // cancelled, or it never existed
		return
	}
	sub := &t.s.Subscriptions[i]
	e.Call = sub.Call
	if e.Inline || !sub.Child && t.full() {
		t.postpone(e)
		t.advance()
		return
	}
	child := ChildOf(t.s.Session.ID, e.Call.ID)
	if !sub.Child {
		sub.Child = true
		t.child(child, "")
	}
	final := e.Final
	e.Foreign, e.Final = true, false
	t.forward(child, input{Kind: happened, Event: &e})
	if final {
		t.s.Subscriptions = slices.Delete(t.s.Subscriptions, i, i+1)
	}
}

// end handles the end of a subscription that ends without an event.
func (t *turn) end(id string) {
	if i := t.subscription(id); i >= 0 && !slices.ContainsFunc(t.s.Deferred, func(e Event) bool { return e.Final && e.Call.ID == id }) {
		t.s.Subscriptions = slices.Delete(t.s.Subscriptions, i, i+1)
	}
}

// postpone queues something for the model. The number of queued events is limited.
func (t *turn) postpone(e Event) {
	s := t.s
	if e.Result == nil {
		if !e.Final && t.crowded(16, 4) {
			if s.LeftOut == nil {
				s.LeftOut = map[string]int{}
			}
			s.LeftOut[e.Call.ID]++
			s.Lost++
			return
		}
		if n := s.LeftOut[e.Call.ID]; n > 0 {
			e.Text = agentproto.LeftOutText(n) + "\n" + e.Text
			delete(s.LeftOut, e.Call.ID)
		}
	}
	s.Deferred = append(s.Deferred, e)
	if e.Result == nil && t.crowded(1, 1) {
		s.Holding = true
		t.perform(Action{Kind: HoldEvents}) // again for each event, because the host may have forgotten the request
	}
}

// crowded reports whether the waiting events have reached the limit of their number or that of their bytes, each times the given
// factor. Small events arrive fast: before the host stops them, thousands may arrive.
func (t *turn) crowded(events, size int) bool {
	n, bytes := 0, 0
	for _, e := range t.s.Deferred {
		if e.Result == nil {
			n++
			bytes += e.size()
		}
	}
	return n >= events*t.limits.Deferred || bytes >= size*t.limits.DeferredBytes
}

// welcome accepts events again once the queue is below its limits.
func (t *turn) welcome() {
	if t.s.Holding && !t.crowded(1, 1) {
		t.s.Holding = false
		t.perform(Action{Kind: TakeEvents})
	}
}

// size returns how much a waiting event counts.
func (e *Event) size() int { return messageOverhead + len(e.Text) }

// flush writes the queued events to the history, in order. It reports whether there were any.
func (t *turn) flush() bool {
	deferred := t.s.Deferred
	t.s.Deferred = nil
	t.welcome()
	if t.s.Lost > 0 {
		t.notice("%d events were left out: more came in than may wait.", t.s.Lost)
		t.s.Lost = 0
	}
	for _, e := range deferred {
		t.inject(e)
		if e.Final && !e.Foreign {
			if i := t.subscription(e.Call.ID); i >= 0 {
				t.s.Subscriptions = slices.Delete(t.s.Subscriptions, i, i+1)
			}
		}
	}
	return len(deferred) > 0
}

// inject writes a call of [EventTool] that the model did not make, and its result.
func (t *turn) inject(e Event) {
	what := struct {
		Kind       string          `json:"kind"`
		ToolCallID string          `json:"tool_call_id"`
		Tool       string          `json:"tool"`
		Arguments  json.RawMessage `json:"arguments,omitempty"`
		Final      bool            `json:"final,omitempty"`
	}{Kind: "event", ToolCallID: e.Call.ID, Tool: e.Call.shown(), Final: e.Final}
	if args := json.RawMessage(e.Call.Arguments); json.Valid(args) {
		what.Arguments = args
	}
	if e.Result != nil {
		what.Kind = "result"
	}
	args, err := json.Marshal(what)
	if err != nil { // cannot happen: strings and valid JSON can be marshalled
		args = []byte("{}")
	}
	call := t.name([]Call{{ID: fmt.Sprintf("event-%d", t.s.Messages), Name: EventTool, Arguments: string(args)}})
	result := &ToolResult{Content: []agentproto.Content{{Type: agentproto.KindText, Text: e.Text}}}
	if e.Result != nil {
		copied := *e.Result
		result = &copied
	}
	result.ID = call[0].ID
	t.write(Message{Kind: Assistant, Calls: call, Synthetic: true})
	t.write(Message{Kind: Result, Result: result})
}
