package conform

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Cases T, L and E: time, load, and calls that a tool server has lost (doc/protocol.md §6.3,
// §1.3 and §9.4).

func raceID(i int) string { return fmt.Sprint("race", i) }

func caseT01(t *runtimeTrial) {
	t.config.TimeoutsMS.Call = 300
	s, other := t.server("tools"), t.server("other")
	t.start()
	t.needs(PartLifetime)
	h := t.session("s")
	inv := s.begin(h, "c")
	h.failed("c")
	t.until("every server is told that the call is cancelled", func() bool {
		return len(s.cancels("s", "c")) == 1 && len(other.cancels("s", "c")) == 1
	})
	h.late(inv)
	h.result("c")
}

// races is how many calls T02 makes whose lifetime ends when their result arrives.
const races = 100

func caseT02(t *runtimeTrial) {
	t.config.TimeoutsMS.Call = 1000
	s, h := t.one()
	t.needs(PartLifetime)
	calls := make([]TurnCall, races)
	for i := range calls {
		calls[i] = call(raceID(i))
	}
	begun := time.Now()
	h.say(calls...)
	var wg sync.WaitGroup
	for i := range calls {
		inv := s.await(raceID(i))
		// Results are spread around the time at which lifetimes end.
		at := begun.Add(900*time.Millisecond + time.Duration(i)*time.Millisecond)
		wg.Go(func() {
			timer := time.NewTimer(time.Until(at))
			defer timer.Stop()
			<-timer.C
			t.post(inv.CallbackURL, jsonOf(inv.resultOf("in time")))
		})
	}
	wg.Wait()
	t.until("every call has a result", func() bool { return len(h.see().Calls) == 0 })
	seen := map[string]int{}
	for _, m := range h.see().History {
		if m.Role == RoleResult {
			seen[m.ID]++
		}
	}
	for i := range calls {
		t.want(seen[raceID(i)] == 1, "the call %q has %d results", raceID(i), seen[raceID(i)])
	}
}

func caseT03(t *runtimeTrial) {
	t.config.TimeoutsMS.Call, t.config.TimeoutsMS.LongCall = 1500, 60_000
	s := t.server("tools", echoTool("echo"), longTool())
	t.startWithState()
	t.needs(PartLifetime, PartClock)
	for _, jump := range []time.Duration{-time.Hour, time.Hour} {
		when := fmt.Sprintf("the clock was set %v while the runtime ran", jump)
		h, other := t.session("s"+jump.String()), t.session("other"+jump.String())
		h.say(callOf("long", "long", fields{}))
		long := s.await("long")
		t.must(t.p.SetClock(t.ctx, jump))
		begun := time.Now()
		other.say(call("short"))
		s.await("short")
		other.failed("short")
		t.want(time.Since(begun) > time.Second, "%s: a call that may take 1.5 s ended after %v", when, time.Since(begun))
		t.want(h.see().pending("long") != nil, "%s: a call ended whose time was not over", when)

		t.config.ClockAheadMS = jump.Milliseconds()
		t.restart()
		if jump > 0 { // by the clock, its time is over
			h.failed("long")
			continue
		}
		t.want(h.see().pending("long") != nil, "%s, and then it was restarted: a call ended whose time was not over", when)
		s.finish(long, "in time")
		h.resolved("long", "in time")
	}
}

func caseT04(t *runtimeTrial) {
	t.config.TimeoutsMS.OAuth, t.config.TimeoutsMS.Call, t.config.TimeoutsMS.LongCall = 1500, 1500, 60_000
	s := t.server("tools", echoTool("echo"), longTool())
	t.startWithState()
	t.needs(PartLifetime)
	h := t.session("s")
	h.say(call("short"), call("asking"), callOf("long", "long", fields{}))
	s.await("short")
	asking := s.await("asking")
	s.deliver(asking, asking.oauthOf(authURL))
	long := s.await("long")
	h.prompt("asking")
	t.p.kill()
	t.pass(2 * time.Second)
	begun := time.Now()
	t.start()
	t.until("calls whose time was over are resolved at the start", func() bool {
		seen := h.see()
		return seen.pending("short") == nil && seen.pending("asking") == nil
	})
	t.want(time.Since(begun) < 5*time.Second, "it took %v after the restart", time.Since(begun))
	t.want(h.see().pending("long") != nil, "a call whose time was not over has ended")
	s.finish(long, "in time")
	h.resolved("long", "in time")
	h.failed("short")
	h.failed("asking")
}

func caseL01(t *runtimeTrial) {
	s, h, inv := t.subscriber()
	const n = 60
	together(n, func(i int) {
		for t.post(inv.CallbackURL, jsonOf(inv.eventOf(fmt.Sprint("parallel ", i)))).Status != http.StatusOK {
			t.pass(20 * time.Millisecond)
		}
	})
	got := h.events("sub", n)
	slices.Sort(got)
	t.want(len(slices.Compact(got)) == n, "of %d events sent at once some are there twice, others not: %q", n, got)
	for i := range n {
		s.deliver(inv, inv.eventOf(fmt.Sprint("then ", i)))
	}
	all := h.events("sub", 2*n)[n:]
	for i, text := range all {
		t.want(text == fmt.Sprint("then ", i), "event %d sent one after the other is %q", i, text)
	}
}

func caseL02(t *runtimeTrial) {
	const threads = 1000
	slow := t.server("slow")
	fast := t.server("fast")
	slow.onInvoke = func(w http.ResponseWriter, inv *invocation) { hold(w, inv.Done) }
	fast.onInvoke = func(_ http.ResponseWriter, inv *invocation) {
		go t.post(inv.CallbackURL, jsonOf(inv.resultOf("fast")))
	}
	t.config.TimeoutsMS.Ack, t.config.TimeoutsMS.Dispatch = 40_000, 50_000
	t.start()
	root := t.session("s")
	t.needs(PartChildren)
	ids := make([]string, threads)
	for i := range ids {
		ids[i] = fmt.Sprint("thread", i)
	}
	errs := make(chan error, threads)
	const lanes = 16
	together(lanes, func(lane int) {
		for i := lane; i < threads; i += lanes {
			err := t.p.Child(t.ctx, root.id, ids[i])
			if err == nil {
				operation := "fast"
				if i%2 == 0 {
					operation = "echo" // of the slow server
				}
				err = t.p.Say(t.ctx, ids[i], Turn{Calls: []TurnCall{callOf("c", operation, fields{})}})
			}
			if err != nil {
				errs <- err
			}
		}
	})
	close(errs)
	for err := range errs {
		t.must(err)
	}
	waiting := ids
	t.within(20*time.Second, "every call of the fast server has its result", func() bool {
		waiting = slices.DeleteFunc(slices.Clone(waiting), func(id string) bool {
			h := &trialThread{t, id}
			return len(h.see().results("c")) == 1
		})
		return len(waiting) <= threads/2
	})
	begun := time.Now()
	root.say(callOf("last", "fast", fields{}))
	root.resolved("last", "fast")
	t.want(time.Since(begun) < 3*time.Second, "beside a slow server with %d calls, a call of a fast one took %v", threads/2, time.Since(begun))
}

func caseE01(t *runtimeTrial) {
	t.config.AskAlive = true
	replies := map[string]func(w http.ResponseWriter){
		"false":    func(w http.ResponseWriter) { fmt.Fprint(w, `{"alive":false}`) },
		"missing":  func(w http.ResponseWriter) { w.WriteHeader(404) },
		"nonsense": func(w http.ResponseWriter) { fmt.Fprint(w, `alive, I think`) },
		"true":     func(w http.ResponseWriter) { fmt.Fprint(w, `{"alive":true}`) },
		"broken":   func(w http.ResponseWriter) { w.WriteHeader(500) },
		"silent": func(w http.ResponseWriter) {
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				c.Close()
			}
		},
	}
	s := t.server("tools")
	s.onOther = func(w http.ResponseWriter, p *posting) {
		id, _ := p.Members["tool_call_id"].(string)
		if reply := replies[id]; p.Path == "/tool_call_status" && reply != nil {
			w.Header().Set("Content-Type", "application/json")
			reply(w)
		}
	}
	t.startWithState()
	t.needs(PartAlive)
	sent := map[string]*invocation{}
	at := map[string]*trialThread{}
	for id := range replies {
		at[id] = t.session("s-" + id)
		sent[id] = s.begin(at[id], id)
		at[id].waits(id)
	}
	t.restart()
	for _, id := range []string{"false", "missing", "nonsense"} {
		at[id].failed(id)
	}
	for _, id := range []string{"true", "broken", "silent"} {
		at[id].waits(id)
		s.finish(sent[id], "kept")
		at[id].resolved(id, "kept")
	}
	for _, p := range s.posts("/tool_call_status") {
		id, _ := p.Members["tool_call_id"].(string)
		t.want(p.Members["thread_id"] == "s-"+id, "the status of call %q was asked for thread %v", id, p.Members["thread_id"])
	}
}
