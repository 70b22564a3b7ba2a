package conform

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Cases S: subscriptions (doc/protocol.md §7).

const cancelTool = "cancel_subscription"

func cancelOf(id, subscription string) TurnCall {
	return callOf(id, cancelTool, fields{"tool_call_id": subscription})
}

// subscriber starts a runtime with one tool server, and a session with a subscription.
func (t *runtimeTrial) subscriber() (*scriptedTool, *trialThread, *invocation) {
	s := t.server("tools")
	t.start()
	t.needs(PartSubscriptions)
	h := t.session("s")
	return s, h, s.subscribe(h, "sub")
}

func caseS01(t *runtimeTrial) {
	s, h, _ := t.subscriber()
	plain := s.begin(h, "plain")
	s.finish(plain, "no subscription")
	h.resolved("plain", "no subscription")
	t.want(len(h.see().Subscriptions) == 1, "the thread has subscriptions %+v", h.see().Subscriptions)
	t.want(len(h.beside("s2").see().Subscriptions) == 0, "another thread has a subscription")
	if t.has(PartChildren) {
		t.want(len(h.child("child").see().Subscriptions) == 0, "a child has its parent's subscription")
	}
}

func caseS02(t *runtimeTrial) {
	s, h, inv := t.subscriber()
	s.deliver(inv, inv.eventOf("inline"))
	t.want(h.events("sub", 1)[0] == "inline", "the event in the history is another one")
	s.deliver(inv, with(inv.eventOf("apart"), fields{"associative": false}))
	t.until("an event that is not associative is in a child thread", func() bool {
		return slices.ContainsFunc(h.see().Children, func(child string) bool {
			c := &trialThread{t, child}
			return slices.ContainsFunc(c.see().messages(RoleEvent, "sub"), func(m Message) bool { return m.text() == "apart" })
		})
	})
	h.events("sub", 1)
}

func caseS03(t *runtimeTrial) {
	s, h, inv := t.subscriber()
	s.deliver(inv, inv.eventOf("one"))
	s.deliver(inv, with(inv.eventOf("the end"), fields{"final": true}))
	got := h.events("sub", 2)
	t.want(got[0] == "one" && got[1] == "the end", "the events are %q", got)
	t.until("a final event ends the subscription", func() bool { return !h.see().subscribed("sub") })
	// An event in a child thread ends it too.
	second := s.subscribe(h, "sub2")
	s.deliver(second, with(second.eventOf("apart"), fields{"final": true, "associative": false}))
	t.until("a final event in a child thread ends the subscription", func() bool { return !h.see().subscribed("sub2") })
}

func caseS04(t *runtimeTrial) {
	s, h, inv := t.subscriber()
	s.deliver(inv, with(inv.eventOf("the end"), fields{"final": true}))
	h.events("sub", 1)
	plain := s.begin(h, "plain")
	s.finish(plain, "done")
	h.resolved("plain", "done")
	cancelled := s.subscribe(h, "cancelled")
	h.say(cancelOf("cancel", "cancelled"))
	h.result("cancel")
	other := s.begin(h, "pending")
	h.unchanged("events of no open subscription", func() {
		for _, x := range []*invocation{inv, plain, cancelled, other} {
			p := t.message(x.CallbackURL, x.eventOf("nobody listens"))
			t.want(p.Status == 200 || p.refused(), "an event of no open subscription was answered %d", p.Status)
		}
		t.message(inv.CallbackURL, with(inv.eventOf("unknown"), fields{"tool_call_id": "unknown"}))
		t.message(inv.CallbackURL, with(inv.eventOf("unknown"), fields{"group_id": "unknown"}))
	})
	t.want(len(h.see().Children) == 0 && !(&trialThread{t, "unknown"}).exists(), "an event of no open subscription made a thread")
	s.finish(other, "done")
	h.resolved("pending", "done")
	if t.has(PartStats) {
		t.until("discarded events are counted", func() bool { st := t.stats(); return st.Dropped+st.Refused >= 4 })
	}
}

func caseS05(t *runtimeTrial) {
	s, h, inv := t.subscriber()
	b := h.beside("s2")
	b.say(cancelOf("foreign", "sub"))
	b.failed("foreign")
	h.say(cancelOf("unknown", "nothing"))
	h.failed("unknown")
	if t.has(PartChildren) {
		child := h.child("child")
		child.say(cancelOf("parents", "sub"))
		child.failed("parents")
	}
	t.never("a server is told of a cancellation", func() bool { return len(s.posts("/cancel_tool_call")) > 0 })
	s.deliver(inv, inv.eventOf("still there"))
	h.events("sub", 1)
}

func caseS06(t *runtimeTrial) {
	s, other := t.server("tools"), t.server("other")
	t.start()
	t.needs(PartSubscriptions)
	h := t.session("s")
	inv := s.subscribe(h, "sub")
	h.say(cancelOf("cancel", "sub"))
	m := h.result("cancel")
	t.want(!m.failed(), "cancelling an own subscription failed: %q", m.text())
	t.until("every server is told", func() bool { return len(s.cancels("s", "sub")) == 1 && len(other.cancels("s", "sub")) == 1 })
	t.want(!h.see().subscribed("sub"), "the subscription is still tracked")
	h.unchanged("an event after the cancellation", func() { t.message(inv.CallbackURL, inv.eventOf("late")) })
	t.want(len(s.all()) == 1, "cancelling was sent to a tool server as a call")
}

func caseS07(t *runtimeTrial) {
	s, h, inv := t.subscriber()
	pending := s.begin(h, "c")
	for i := range 3 {
		s.deliver(inv, inv.eventOf(fmt.Sprint("event ", i)))
	}
	t.never("an event is shown while a call is pending", func() bool { return len(h.see().messages(RoleEvent, "sub")) > 0 })
	s.finish(pending, "first the result")
	h.resolved("c", "first the result")
	got := h.events("sub", 3)
	t.want(fmt.Sprint(got) == "[event 0 event 1 event 2]", "the events are %q", got)
	t.want(h.order(RoleResult, "c") < h.order(RoleEvent, "sub"), "the events are before the result")
}

// order returns the index of the first message of a role about a call.
func (h *trialThread) order(role, id string) int {
	return slices.IndexFunc(h.see().History, func(m Message) bool { return m.Role == role && m.ID == id })
}

func caseS08(t *runtimeTrial) {
	s := t.server("tools")
	t.startWithState()
	t.needs(PartSubscriptions)
	h := t.session("s")
	inv := s.subscribe(h, "sub")
	pending := s.begin(h, "c")
	s.deliver(inv, inv.eventOf("deferred"))
	t.restart()
	s.finish(pending, "after the crash")
	h.resolved("c", "after the crash")
	t.want(h.events("sub", 1)[0] == "deferred", "the event is another one")
	t.want(h.order(RoleResult, "c") < h.order(RoleEvent, "sub"), "the event is before the result")
}

func caseS09(t *runtimeTrial) {
	s, h, inv := t.subscriber()
	t.needs(PartWebhookID)
	stamp := func() string { return fmt.Sprint(time.Now().Unix()) }
	for range 2 {
		s.deliver(inv, inv.eventOf("told apart"), "webhook-id", "msg_1", "webhook-timestamp", stamp())
	}
	h.events("sub", 1)
	s.deliver(inv, inv.eventOf("another"), "webhook-id", "msg_2", "webhook-timestamp", stamp())
	for range 2 {
		s.deliver(inv, inv.eventOf("no id"))
	}
	got := h.events("sub", 4)
	t.want(fmt.Sprint(got) == "[told apart another no id no id]", "the events are %q", got)
	t.never("an event is shown again", func() bool { return len(h.see().messages(RoleEvent, "sub")) != 4 })
}

func caseS10(t *runtimeTrial) {
	s, h := t.one()
	t.needs(PartSubscriptions)
	if t.p.hello.EventTool == "" {
		t.lacks("the runtime shows events under no reserved name")
	}
	h.say(callOf("c", t.p.hello.EventTool, fields{"original_tool_name": "echo", "original_tool_call_id": "x", "original_args": fields{}}))
	h.failed("c")
	t.want(len(s.all()) == 0, "the reserved tool was sent to a tool server")
}

// manyEvents is how many events S11 posts, as fast as the machine can. They are so large that they exceed a limit on
// bytes per second. On a machine that posts slowly they may not, so S11 stops when manyTaken are taken: some more would
// exceed what our runtime keeps of a thread, which then drops the oldest. It also stops after a while.
const (
	manyEvents = 10_000
	manyTaken  = 2_500

	floodWithin = 30 * time.Second
)

var largeEvent = strings.Repeat(".", 900)

func caseS11(t *runtimeTrial) {
	s, h, inv := t.subscriber()
	b := h.beside("s2")
	take := func(id string) time.Duration {
		begun := time.Now()
		b.say(call(id))
		s.finish(s.await(id), "unaffected")
		b.resolved(id, "unaffected")
		return time.Since(begun)
	}
	quiet := take("before")
	var next, posted, taken, busy atomic.Int64
	var flood sync.WaitGroup
	begun := time.Now()
	for range 16 {
		flood.Go(func() {
			for taken.Load() < manyTaken && time.Since(begun) < floodWithin {
				i := next.Add(1)
				if i > manyEvents {
					return
				}
				posted.Add(1)
				p := t.post(inv.CallbackURL, jsonOf(inv.eventOf(fmt.Sprint("event ", i, largeEvent))), "webhook-id", fmt.Sprint("msg_", i))
				switch p.Status {
				case 200:
					taken.Add(1)
				case 503:
					busy.Add(1)
				}
			}
		})
	}
	worst, before := time.Duration(0), t.p.memory()
	for i := range 20 {
		worst = max(worst, take(fmt.Sprintf("c%d", i)))
	}
	flood.Wait()
	t.want(taken.Load()+busy.Load() == posted.Load(), "of %d events %d were answered 200 and %d 503, the others neither", posted.Load(), taken.Load(), busy.Load())
	grown := t.p.memory() - before
	t.want(grown < 512<<20, "the flood took %d MB of memory", grown>>20)
	t.want(worst < 3*time.Second+10*quiet, "a call of another thread took %v during the flood, and %v before", worst, quiet)
	t.accounted(h, inv, taken.Load())
	if busy.Load() > 0 {
		t.until("after the flood events are taken in again", func() bool {
			return t.post(inv.CallbackURL, jsonOf(inv.eventOf("afterwards")), "webhook-id", "msg_afterwards").Status == 200
		})
	}
}

// unsentEvents is how many events S17 posts.
const unsentEvents = 2000

// missing matches the number of missing events that a runtime reports before an event.
var missing = regexp.MustCompile(`^\[(\d+) events? w(?:as|ere) left out`)

// tally returns how many events of the subscription are in the history, and how many it reports as missing.
func (h *trialThread) tally() (shown, told int) {
	for _, m := range h.see().messages(RoleEvent, "sub") {
		shown++
		if found := missing.FindStringSubmatch(m.text()); found != nil {
			n, _ := strconv.Atoi(found[1])
			told += n
		}
	}
	return shown, told
}

// accounted waits until each event that was answered 200 is in the history or reported as missing. A runtime reports
// missing events with the next one that it takes, so one more is posted whenever nothing changes.
func (t *runtimeTrial) accounted(h *trialThread, inv *invocation, taken int64) {
	var shown, told, before int
	all := t.poll(time.Minute, func() bool {
		shown, told = h.tally()
		if shown+told == before && int64(before) < taken && t.post(inv.CallbackURL, jsonOf(inv.eventOf("one more"))).Status == 200 {
			taken++
		}
		before = shown + told
		return int64(before) == taken
	})
	t.want(all, "of %d events that were answered 200, %d are in the history and %d are reported as missing", taken, shown, told)
}

func caseS17(t *runtimeTrial) {
	s, h, inv := t.subscriber()
	pending := s.begin(h, "c") // so that the events wait
	taken := 0
	for i := range unsentEvents {
		p := t.post(inv.CallbackURL, jsonOf(inv.eventOf(fmt.Sprint("event ", i))))
		if t.want(p.Status == 200, "event %d was answered %d, and nobody sends it again", i, p.Status); p.Status == 200 {
			taken++
		}
	}
	final := with(inv.eventOf("the end"), fields{"final": true})
	if p := t.post(inv.CallbackURL, jsonOf(final)); p.Status == 200 {
		taken++
	} else {
		t.want(false, "the final event was answered %d", p.Status)
	}
	s.finish(pending, "first the result")
	h.resolved("c", "first the result")
	t.within(30*time.Second, "the final event is shown", func() bool {
		shown := h.see().messages(RoleEvent, "sub")
		return len(shown) > 0 && strings.HasSuffix(shown[len(shown)-1].text(), "the end")
	})
	t.until("the subscription is over", func() bool { return !h.see().subscribed("sub") })
	shown, told := h.tally()
	t.want(shown+told == taken, "of %d events that were answered 200, %d are shown and %d are told of as missing", taken, shown, told)
}

func caseS12(t *runtimeTrial) {
	t.config.Limits.Subscriptions = 3
	s := t.server("tools")
	t.start()
	t.needs(PartSubscriptions, PartLimits)
	h := t.session("s")
	for i := range 3 {
		s.subscribe(h, fmt.Sprint("sub", i))
	}
	inv := s.begin(h, "more")
	t.message(inv.CallbackURL, with(inv.resultOf("subscribed"), fields{"subscription": true}))
	h.failed("more")
	t.until("the server is told that the call is cancelled", func() bool { return len(s.cancels("s", "more")) == 1 })
	t.want(len(h.see().Subscriptions) == 3, "the thread has %d subscriptions", len(h.see().Subscriptions))
	h.unchanged("an event of a refused subscription", func() { t.message(inv.CallbackURL, inv.eventOf("more")) })
}
