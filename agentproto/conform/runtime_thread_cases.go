package conform

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Cases V, K and X: views, and notifications to tool servers about cancelled calls and closed
// threads (doc/protocol.md §5.6 and §9).

// view returns the content of a type of view as JSON, or "" if there is none.
func (s Thread) view(viewType string) string {
	for _, v := range s.Views {
		if v.ViewType == viewType {
			return jsonOf(v.Content)
		}
	}
	return ""
}

func (h *trialThread) shows(viewType, want string) {
	h.t.until(fmt.Sprintf("the view %q shows %s", viewType, want), func() bool { return h.see().view(viewType) == want })
}

func (t *runtimeTrial) viewer() (*scriptedTool, *trialThread, *invocation) {
	s := t.server("tools")
	t.start()
	t.needs(PartViews)
	h := t.session("s")
	return s, h, s.begin(h, "c")
}

func caseV01(t *runtimeTrial) {
	s, h, inv := t.viewer()
	h.unchanged("views", func() {
		s.deliver(inv, inv.viewOf("plan", fields{"step": 1}))
		h.shows("plan", `{"step":1}`)
		s.deliver(inv, inv.viewOf("plan", fields{"step": 2}))
		s.deliver(inv, inv.viewOf("map", fields{"x": "y"}))
		h.shows("plan", `{"step":2}`)
		h.shows("map", `{"x":"y"}`)
	})
	s.deliver(inv, inv.viewOf("plan", fields{}))
	t.until("an empty view is cleared", func() bool { v := h.see().view("plan"); return v == "" || v == "{}" })
	s.finish(inv, "done")
	h.resolved("c", "done")
}

func caseV02(t *runtimeTrial) {
	s, h, inv := t.viewer()
	b := h.beside("s2")
	for _, m := range []map[string]any{
		with(inv.viewOf("plan", fields{"a": 1}), fields{"group_id": "unknown"}), with(inv.viewOf("plan", fields{"a": 1}), fields{"group_id": "s2"}),
		inv.viewOf("plan", "text"), inv.viewOf("plan", []any{1}), with(inv.viewOf("plan", 1), fields{"content": nil}),
		with(inv.viewOf("plan", fields{"a": 1}), fields{"view_type": nil}),
	} {
		p := t.message(inv.CallbackURL, m)
		t.want(p.refused(), "a view that is not right was answered %d: %s", p.Status, jsonOf(m))
	}
	t.never("such a view is shown", func() bool { return len(h.see().Views)+len(b.see().Views) > 0 })
	t.want(!(&trialThread{t, "unknown"}).exists(), "a view made a thread")
	s.finish(inv, "not affected")
	h.resolved("c", "not affected")
}

func caseV03(t *runtimeTrial) {
	s, h, inv := t.viewer()
	s.deliver(inv, inv.viewOf("plan", fields{"step": 1}))
	s.deliver(inv, inv.viewOf("plan", fields{"step": 2}))
	h.shows("plan", `{"step":2}`)
	// A second client sees the same as the first.
	late := NewControl(t.p.hello.Control, t.p.hello.Token)
	seen, err := late.Thread(t.ctx, "s")
	t.must(err)
	t.want(seen.view("plan") == `{"step":2}`, "a viewer that attaches later sees %s", seen.view("plan"))
}

func caseV04(t *runtimeTrial) {
	t.config.Limits.Views = 20
	s, h, inv := t.viewer()
	for i := range 200 {
		p := t.post(inv.CallbackURL, jsonOf(inv.viewOf(fmt.Sprint("type", i), fields{"i": i})))
		t.want(p.Status == 200 || p.Status == 503 || p.refused(), "view %d was answered %d", i, p.Status)
	}
	if t.has(PartLimits) {
		t.until("views are kept", func() bool { return len(h.see().Views) > 0 })
		t.want(len(h.see().Views) <= 20, "%d types of views are kept although 20 may be", len(h.see().Views))
	}
	p := t.post(inv.CallbackURL, jsonOf(inv.viewOf("huge", fields{"x": strings.Repeat("x", 50<<20)})))
	t.want(p.Err != nil || p.refused(), "a view of 50 MB was answered %d", p.Status)
	t.want(h.see().view("huge") == "", "a view of 50 MB is shown")
	_ = s
}

// A gathering answers notifications only after a number of them has arrived, so that they must be
// sent concurrently.
type gathering struct {
	mu   sync.Mutex
	left int
	open chan struct{}
}

func gather(n int) *gathering { return &gathering{left: n, open: make(chan struct{})} }

func (g *gathering) wait(p *posting) {
	g.mu.Lock()
	if g.left--; g.left == 0 {
		close(g.open)
	}
	g.mu.Unlock()
	select {
	case <-g.open:
	case <-p.Done:
	}
}

// three starts a runtime with three tool servers that handle notifications with do.
func (t *runtimeTrial) three(do func(s *scriptedTool, w http.ResponseWriter, p *posting)) (*scriptedTool, *trialThread) {
	for _, name := range []string{"tools", "second", "third"} {
		s := t.server(name)
		s.onOther = func(w http.ResponseWriter, p *posting) { do(s, w, p) }
	}
	t.start()
	t.needs(PartInterrupt)
	return t.servers[0], t.session("s")
}

func caseK01(t *runtimeTrial) {
	g := gather(3)
	s, h := t.three(func(_ *scriptedTool, _ http.ResponseWriter, p *posting) { g.wait(p) })
	inv := s.begin(h, "c")
	begun := time.Now()
	h.interrupt()
	h.failed("c")
	t.want(time.Since(begun) < 3*time.Second, "interrupting took %v", time.Since(begun))
	t.within(3*time.Second, "all three servers are told at the same time", func() bool {
		select {
		case <-g.open:
			return true
		default:
			return false
		}
	})
	for _, s := range t.servers {
		t.want(len(s.cancels("s", "c")) == 1, "the server %q was told %d times", s.name, len(s.cancels("s", "c")))
	}
	h.late(inv)
	h.result("c")
}

func caseK02(t *runtimeTrial) {
	s, h := t.three(func(s *scriptedTool, w http.ResponseWriter, p *posting) {
		if s.name == "second" {
			hold(w, p.Done)
		}
	})
	s.begin(h, "c")
	h.interrupt()
	h.failed("c")
	t.until("the other servers are told", func() bool {
		return len(s.cancels("s", "c")) == 1 && len(t.servers[2].cancels("s", "c")) == 1
	})
	begun := time.Now()
	s.finish(s.begin(h, "next"), "the thread goes on")
	h.resolved("next", "the thread goes on")
	t.want(time.Since(begun) < 5*time.Second, "a server that hangs held up the thread for %v", time.Since(begun))
}

func caseK03(t *runtimeTrial) {
	s, h := t.three(func(_ *scriptedTool, w http.ResponseWriter, _ *posting) {
		w.WriteHeader(http.StatusInternalServerError)
	})
	s.begin(h, "c")
	h.interrupt()
	h.failed("c")
	t.until("the servers are told", func() bool { return len(s.cancels("s", "c")) == 1 && len(t.servers[2].cancels("s", "c")) == 1 })
	t.never("a notification that was answered 500 is sent again", func() bool { return len(s.cancels("s", "c")) > 1 })
}

func caseX01(t *runtimeTrial) {
	g := gather(3)
	s, h := t.three(func(_ *scriptedTool, _ http.ResponseWriter, p *posting) { g.wait(p) })
	s.begin(h, "c")
	h.close()
	t.within(3*time.Second, "all three servers are told at the same time", func() bool {
		select {
		case <-g.open:
			return true
		default:
			return false
		}
	})
	t.never("a server is told again", func() bool {
		for _, s := range t.servers {
			if len(s.closings("s")) != 1 {
				return true
			}
		}
		return false
	})
	t.want(h.see().Closed, "the thread is not closed")
}

func caseX02(t *runtimeTrial) {
	s, h := t.one()
	plain := s.begin(h, "plain")
	b := h
	if t.has(PartChildren) {
		b = h.child("child")
	}
	asking := s.begin(b, "asking")
	s.deliver(asking, asking.choiceOf(s.base+"/respond"))
	b.prompt("asking")
	h.close()
	for _, x := range []*trialThread{h, b} {
		t.until("nothing is pending and nobody is asked in a closed session", func() bool {
			seen := x.see()
			return len(seen.Calls) == 0 && len(seen.Prompts) == 0
		})
	}
	h.failed("plain")
	b.failed("asking")
	b.late(plain)
	b.late(asking)
	t.message(asking.CallbackURL, asking.oauthOf(authURL))
	t.message(plain.CallbackURL, plain.viewOf("plan", fields{"a": 1}))
	t.never("a callback has an effect on a closed session", func() bool {
		seen := b.see()
		return len(seen.Prompts) > 0 || h.see().view("plan") != ""
	})
}

func caseX03(t *runtimeTrial) {
	s, h := t.one()
	var sub *invocation
	if t.has(PartSubscriptions) {
		sub = s.subscribe(h, "sub")
	}
	inv := s.begin(h, "c")
	h.close()
	h.late(inv)
	if sub != nil {
		h.unchanged("an event of a closed thread", func() { t.message(sub.CallbackURL, sub.eventOf("late")) })
	}
	other := h.beside("s2")
	s.finish(s.begin(other, "c2"), "another session goes on")
	other.resolved("c2", "another session goes on")
}
