package conform

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Cases I: how a runtime makes calls (doc/protocol.md §4).

func caseI01(t *runtimeTrial) {
	s, h := t.one()
	h.say(TurnCall{ID: "c", CallID: "second-id", Operation: "echo", Arguments: fields{"text": "héllo", "n": 1.5, "deep": fields{"a": []any{nil, true}}}})
	inv := s.await("c")
	t.want(inv.Method == http.MethodPost, "the invocation is a %s", inv.Method)
	t.want(strings.HasPrefix(inv.Header.Get("Content-Type"), "application/json"), "the invocation's Content-Type is %q", inv.Header.Get("Content-Type"))
	t.want(inv.Operation == "echo" && inv.GroupID == "s", "the invocation is of operation %q in group %q", inv.Operation, inv.GroupID)
	t.want(inv.CallID != nil && *inv.CallID == "second-id", "the call_id is not the model's: %.300q", inv.Body)
	t.want(inv.UserID == nil || *inv.UserID == "user-s", "the user_id is %v", inv.UserID)
	u, err := url.Parse(inv.CallbackURL)
	t.want(err == nil && u.IsAbs() && u.Host != "", "the callback_url is not absolute: %q", inv.CallbackURL)
	var got any
	t.want(json.Unmarshal(inv.Arguments, &got) == nil, "the arguments are no JSON: %q", inv.Arguments)
	t.want(jsonOf(got) == jsonOf(fields{"text": "héllo", "n": 1.5, "deep": fields{"a": []any{nil, true}}}), "the arguments are %q", inv.Arguments)
	s.finish(inv, "done")
	h.resolved("c", "done")
	t.want(len(s.invocations("c")) == 1, "an accepted call was sent %d times", len(s.invocations("c")))
}

func caseI02(t *runtimeTrial) {
	s, h := t.one()
	root := s.begin(h, "r")
	t.want(len(root.Ancestors) == 0, "the root has ancestors: %q", root.Ancestors)
	child := h.child("child")
	inner := child.child("inner")
	inv := s.begin(child, "c")
	t.want(inv.GroupID == "child" && slices.Equal(inv.Ancestors, []string{"s"}), "a child's call has group %q and ancestors %q", inv.GroupID, inv.Ancestors)
	deep := s.begin(inner, "i")
	t.want(deep.GroupID == "inner" && slices.Equal(deep.Ancestors, []string{"s", "child"}), "a grandchild's call has group %q and ancestors %q", deep.GroupID, deep.Ancestors)
	s.finish(deep, "deep")
	inner.resolved("i", "deep")
}

func caseI03(t *runtimeTrial) {
	s, h := t.one()
	h.say(callOf("c", "no_such_tool", fields{}))
	h.failed("c")
	t.never("a call of an unknown tool is sent", func() bool { return len(s.invocations("c")) > 0 })
}

func caseI04(t *runtimeTrial) {
	s := t.server("tools", schemaTool("echo", fields{
		"type": "object", "required": []string{"count"},
		"properties": fields{"count": fields{"type": "integer"}, "inner": fields{"type": "object", "properties": fields{"flag": fields{"type": "boolean"}}}},
	}))
	t.start()
	h := t.session("s")
	bad := map[string]any{
		"count": fields{"count": "three"}, "flag": fields{"count": 1, "inner": fields{"flag": "yes"}},
	}
	for path, args := range bad {
		h.say(callOf(path, "echo", args))
		text := h.failed(path)
		t.want(strings.Contains(text, path), "the error does not name %q: %q", path, text)
	}
	h.say(callOf("missing", "echo", fields{}))
	h.failed("missing")
	h.say(callOf("array", "echo", []any{1}))
	h.failed("array")
	t.never("arguments that do not fit are sent", func() bool { return len(s.all()) > 0 })
	h.say(callOf("good", "echo", fields{"count": 3}))
	s.finish(s.await("good"), "sent")
	h.resolved("good", "sent")
}

func caseI05(t *runtimeTrial) {
	s, h := t.one()
	for _, code := range []int{400, 401, 404, 409, 422} {
		s.set(func(s *scriptedTool) { s.onInvoke = status(code) })
		id := fmt.Sprintf("c%d", code)
		h.say(call(id))
		h.failed(id)
		t.never(fmt.Sprintf("a call that was answered %d is sent again", code), func() bool { return len(s.invocations(id)) > 1 })
	}
}

// refusing answers the first attempts of each call, up to a number, with 503.
func refusing(times int) func(http.ResponseWriter, *invocation) {
	left := map[string]int{}
	return func(w http.ResponseWriter, inv *invocation) {
		inv.tool.mu.Lock()
		left[inv.ID]++
		n := left[inv.ID]
		inv.tool.mu.Unlock()
		if n <= times {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
}

func caseI06(t *runtimeTrial) {
	t.config.TimeoutsMS.Retry = []int64{100, 400, 800}
	s, h := t.one()
	s.set(func(s *scriptedTool) { s.onInvoke = refusing(2) })
	h.say(call("c"))
	t.until("the call is sent three times", func() bool { return len(s.invocations("c")) >= 3 })
	h.waits("c")
	sent := s.invocations("c")
	t.want(len(sent) == 3, "the call was sent %d times although the third was accepted", len(sent))
	first, second := sent[1].At.Sub(sent[0].At), sent[2].At.Sub(sent[1].At)
	t.want(first >= 40*time.Millisecond && second >= 160*time.Millisecond, "the pauses were %v and %v, which is no backoff of 100 and 400 ms", first, second)
	for _, again := range sent[1:] {
		t.want(again.ID == sent[0].ID && again.GroupID == sent[0].GroupID, "an attempt has other identifiers")
		t.want(again.Header.Get("webhook-id") == sent[0].Header.Get("webhook-id"), "an attempt has another webhook-id")
	}
	s.finish(sent[2], "at last")
	h.resolved("c", "at last")
}

func caseI07(t *runtimeTrial) {
	s, other := t.server("tools"), t.server("other")
	s.onInvoke = status(503)
	t.start()
	h := t.session("s")
	h.say(call("c"))
	h.failed("c")
	attempts := len(s.invocations("c"))
	t.want(attempts >= 2 && attempts <= 1+len(t.config.TimeoutsMS.Retry), "there were %d attempts, not 2 to %d", attempts, 1+len(t.config.TimeoutsMS.Retry))
	t.until("every server is told that the call is cancelled", func() bool {
		return len(s.cancels("s", "c")) > 0 && len(other.cancels("s", "c")) > 0
	})
	t.never("there is a further attempt", func() bool { return len(s.invocations("c")) > attempts })
	h.result("c")
}

func caseI08(t *runtimeTrial) {
	s := t.server("tools")
	far := t.server("far")
	far.extra = fields{"endpoint": "http://tools.invalid:7777/invoke"}
	t.config.AllowOrigins = []string{"http://tools.invalid:7777"}
	t.start()
	h := t.session("s")
	s.close()
	begun := time.Now()
	h.say(call("refused"))
	h.failed("refused")
	h.say(callOf("unknown", "far", fields{}))
	h.failed("unknown")
	t.want(time.Since(begun) < patience, "two calls that cannot be sent took %v", time.Since(begun))
}

func caseI09(t *runtimeTrial) {
	t.config.TimeoutsMS.Ack, t.config.TimeoutsMS.Retry = 400, []int64{50}
	s, h := t.one()
	s.set(func(s *scriptedTool) { s.onInvoke = func(w http.ResponseWriter, inv *invocation) { hold(w, inv.Done) } })
	h.say(call("silent"))
	h.failed("silent")
	t.p.kill()
	t.config.TimeoutsMS.Ack = 30_000
	t.config.TimeoutsMS.Dispatch = 60_000
	t.start()
	t.needs(PartText)
	h = t.session("s2")
	h.say(call("c"))
	s.await("c")
	begun := time.Now()
	t.must(t.p.Text(t.ctx, "s2", "are you there?"))
	t.until("the user's text is in the history", func() bool {
		return slices.ContainsFunc(h.see().History, func(m Message) bool { return m.Role == RoleUser && strings.Contains(m.Text, "are you there?") })
	})
	t.want(time.Since(begun) < 5*time.Second, "a tool server that is silent held up the user for %v", time.Since(begun))
	h.failed("c")
}

func caseI10(t *runtimeTrial) {
	s, h := t.one()
	hole := t.sink()
	for _, code := range []int{307, 302, 308} {
		s.set(func(s *scriptedTool) {
			s.onInvoke = func(w http.ResponseWriter, _ *invocation) {
				w.Header().Set("Location", "http://"+hole.address+"/invoke")
				w.WriteHeader(code)
			}
		})
		id := fmt.Sprintf("c%d", code)
		h.say(call(id))
		h.failed(id)
	}
	hole.untouched(t)
}

func caseI11(t *runtimeTrial) {
	s, h := t.one()
	s.set(func(s *scriptedTool) { s.onInvoke = status(http.StatusNoContent) })
	inv := s.begin(h, "c")
	h.waits("c")
	s.finish(inv, "after 204")
	h.resolved("c", "after 204")
	t.want(len(s.invocations("c")) == 1, "a call that was answered 204 was sent again")
}

func caseI12(t *runtimeTrial) {
	s, h := t.one()
	before := make(chan posted, 8)
	s.set(func(s *scriptedTool) {
		s.onInvoke = func(_ http.ResponseWriter, inv *invocation) {
			before <- t.post(inv.CallbackURL, jsonOf(inv.resultOf("early")))
		}
	})
	h.say(call("c"))
	t.want((<-before).Status == http.StatusOK, "a result before the acknowledgement is not taken in")
	h.resolved("c", "early")
	t.never("the acknowledgement changes something", func() bool { return len(h.see().results("c")) != 1 || len(s.invocations("c")) > 1 })
}

func caseI13(t *runtimeTrial) {
	s := t.server("tools")
	t.startWithState()
	t.session("s")
	s.set(func(s *scriptedTool) { s.onInvoke = status(503) })
	t.p.kill()
	t.config.TimeoutsMS.Retry = []int64{20_000} // so that it is killed before the second attempt
	t.config.TimeoutsMS.Dispatch = 60_000
	t.start()
	h := t.session("s")
	h.say(call("c"))
	first := s.await("c")
	s.set(func(s *scriptedTool) { s.onInvoke = nil })
	t.config.TimeoutsMS.Retry = []int64{40, 80}
	t.restart()
	t.until("the call is sent again after the restart", func() bool { return len(s.invocations("c")) >= 2 })
	again := s.invocations("c")[1]
	t.want(again.GroupID == first.GroupID && again.Operation == first.Operation, "the call was sent again as another one")
	s.finish(again, "once")
	_ = t.message(first.CallbackURL, first.resultOf("twice")) // of the attempt before the crash, which the tool took for a different call
	h.resolved("c", "once")
	t.never("there is a second result", func() bool { return len(h.see().results("c")) != 1 })
}

func caseI14(t *runtimeTrial) {
	s, h := t.one()
	h.say(callOf("c", "echo", fields{"text": "first"}), callOf("c", "echo", fields{"text": "second"}))
	first := s.await("c")
	t.never("a live id is sent twice", func() bool { return len(s.invocations("c")) > 1 })
	t.want(strings.Contains(string(first.Arguments), "first"), "the second call took the place of the first: %s", first.Arguments)
	for _, inv := range s.all() {
		if inv.ID != "c" { // the runtime gave it a new id
			s.finish(inv, "of the second")
		}
	}
	s.finish(first, "of the first")
	t.until("the first call has its result", func() bool {
		return slices.ContainsFunc(h.see().History, func(m Message) bool { return m.Role == RoleResult && m.text() == "of the first" })
	})
	t.until("no call is left", func() bool { return len(h.see().Calls) == 0 })
}

func caseI15(t *runtimeTrial) {
	s := t.server("tools")
	t.start()
	a, b := t.session("a"), t.session("b")
	a.say(call("c"))
	b.say(call("c"))
	t.until("both calls are sent", func() bool { return len(s.invocations("c")) == 2 })
	both := s.invocations("c")
	for _, inv := range slices.Backward(both) {
		s.finish(inv, "for "+inv.GroupID)
	}
	a.resolved("c", "for a")
	b.resolved("c", "for b")
}
