package host

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
)

// TestK01Cancel checks that a cancellation is sent to all servers at the same time, once,
// and waits for none (K01, K02, K03).
func TestK01Cancel(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, failing, hung, broken := w.tool("tool.test"), w.tool("failing.test", "f"), w.tool("hung.test", "h"), w.tool("broken.test", "b")
		failing.notice = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(500) }
		release := make(chan struct{})
		hung.notice = func(http.ResponseWriter, *http.Request) { <-release }
		defer close(release)
		broken.manifest = "none"
		w.net.black("silent.test:80")
		w.opts.Timeouts.Discovery = time.Second
		w.start("http://silent.test", "http://gone.test", hung.base, failing.base, broken.base, tool.base)
		key := w.call("g", "1")
		url := tool.callback()
		start := time.Now()
		if err := w.rt.Cancel(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		r, err := w.rt.Await(t.Context(), key)
		if err != nil || r.Cause != agentproto.ByInterruption || !r.Result.IsError() {
			t.Errorf("resolution %+v, %v", r, err)
		}
		want := []string{`/cancel_tool_call {"thread_id":"g","tool_call_id":"1"}`}
		for _, s := range []*toolServer{tool, failing, hung, broken} {
			if got := s.noticed(); !slices.Equal(got, want) {
				t.Errorf("%s: notices %q, want %q", s.base, got, want)
			}
		}
		if d := time.Since(start); d > 0 {
			t.Errorf("the cancellation took %v", d)
		}
		if status := w.post(url, result(key, "late")); status != 200 {
			t.Errorf("R11: status %d, want 200", status)
		}
		w.rt.Cancel(t.Context(), key)
		w.pass(time.Minute)
		if got := failing.noticed(); len(got) != 1 {
			t.Errorf("K03: notices %q, want one", got)
		}
		if r2, _ := w.rt.Await(t.Context(), key); r2 != r && r2.Result.String() != r.Result.String() {
			t.Errorf("R11: the resolution changed to %q", r2.Result)
		}
		if st := w.stats(); st.Late != 2 || st.Toolsets[tool.base].Late != 2 {
			t.Errorf("stats %+v, want 2 late", st)
		}
	})
}

// TestK02ManyCancellations checks that cancellations do not pile up at a server that
// hangs.
func TestK02ManyCancellations(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		hung, tool := w.tool("hung.test", "h"), w.tool("tool.test")
		release := make(chan struct{})
		hung.notice = func(http.ResponseWriter, *http.Request) { <-release }
		defer close(release)
		w.start(hung.base, tool.base)
		for i := range 500 {
			key := w.call("g", fmt.Sprint(i))
			if err := w.rt.Cancel(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(tool.noticed()); n != 500 {
			t.Errorf("%d cancellations arrived at the good server, want 500", n)
		}
		if n := len(hung.noticed()); n != peer.MaxNotices {
			t.Errorf("%d cancellations at the hung server, want %d", n, peer.MaxNotices)
		}
		start := time.Now()
		if err := w.rt.Stop(context.Background()); err != nil {
			t.Errorf("Stop: %v", err)
		}
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("Stop took %v, want at most 3 s", d)
		}
	})
}

func TestX01X02X03CloseThread(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, other := w.tool("tool.test"), w.tool("other.test", "o")
		w.start(tool.base, other.base)
		a := w.call("g", "1")
		url := tool.callback()
		b := w.call("g", "2")
		elsewhere := w.call("h", "1")
		tool.callbackOf(elsewhere)
		w.post(url, choice(`["a"]`, 0, answerURL))
		if err := w.rt.CloseThread(t.Context(), "g"); err != nil {
			t.Fatal(err)
		}
		for _, key := range []agentproto.CallKey{a, b, w.call("g", "3")} {
			r, err := w.rt.Await(t.Context(), key)
			if err != nil || r.Cause != agentproto.ByClosure {
				t.Errorf("%v: %+v, %v, want thread closed", key, r, err)
			}
		}
		for _, s := range []*toolServer{tool, other} {
			if got, want := s.noticed(), []string{`/close_thread {"thread_id":"g"}`}; !slices.Equal(got, want) {
				t.Errorf("X01: %s: notices %q, want %q", s.base, got, want)
			}
		}
		if got, want := w.user.saw()[1:], []string{"withdraw g/1 " + answerURL}; !slices.Equal(got, want) {
			t.Errorf("X02: saw %q, want %q", got, want)
		}
		if status := w.post(url, result(a, "late")); status != 200 {
			t.Errorf("X03: status %d, want 200", status)
		}
		if st := w.stats(); st.Late != 1 {
			t.Errorf("X03: stats %+v, want 1 late", st.Counts)
		}
		if n := len(tool.invocations()); n != 3 {
			t.Errorf("%d invocations, want 3: none in a closed thread", n)
		}
		w.post(tool.callbackOf(elsewhere), result(elsewhere, "ok"))
		if got := w.text(elsewhere); got != "ok" {
			t.Errorf("other thread: %q", got)
		}
		if err := w.rt.CloseThread(t.Context(), ""); err == nil {
			t.Error("closing no thread succeeded")
		}
	})
}

func TestT01Lifetime(t *testing.T) {
	tests := []struct {
		name string
		req  Request
		want time.Duration
	}{
		{"default", Request{Operation: "echo"}, 15 * time.Minute},
		{"long running", Request{Operation: "long"}, 24 * time.Hour},
		{"asked for", Request{Operation: "long", Lifetime: time.Minute}, time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				tool := w.tool("tool.test", "echo", "long")
				tool.manifest = strings.Replace(tool.manifest, `"long",`, `"long","annotations":{"longRunning":true},`, 1)
				w.start(tool.base)
				tt.req.GroupID = "g"
				start := time.Now()
				key, err := w.rt.Call(t.Context(), tt.req)
				if err != nil {
					t.Fatal(err)
				}
				url := tool.callback()
				r, err := w.rt.Await(t.Context(), key)
				if err != nil || r.Cause != agentproto.ByTimeout {
					t.Errorf("resolution %+v, %v", r, err)
				}
				if d := time.Since(start); d != tt.want {
					t.Errorf("after %v, want %v", d, tt.want)
				}
				if got := tool.noticed(); len(got) != 1 || !strings.HasPrefix(got[0], "/cancel_tool_call ") {
					t.Errorf("notices %q, want one cancellation", got)
				}
				w.pass(5 * 24 * time.Hour)
				if status := w.post(url, result(key, "late")); status != 200 {
					t.Errorf("late result: status %d, want 200", status)
				}
				if st := w.stats(); st.Late != 1 || st.Failures != 1 || st.Results != 0 {
					t.Errorf("stats %+v", st.Counts)
				}
			})
		})
	}
}

// TestResults checks that Results ends with its context, with its reader, and with the
// runtime.
func TestResults(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, key, url := w.pending()
		all := w.rt.Results(t.Context())
		one := w.rt.Results(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		none := w.rt.Results(ctx)
		cancel()
		w.post(url, result(key, "a"))
		second := w.call("g", "2")
		w.post(tool.callback(), result(second, "b"))
		w.stats()
		for r := range one {
			if r.Key != key {
				t.Errorf("first of one = %v", r.Key)
			}
			break
		}
		w.pass(0)
		w.rt.mu.Lock()
		followers := len(w.rt.followers)
		w.rt.mu.Unlock()
		if followers != 1 {
			t.Errorf("%d followers are left, want 1", followers)
		}
		if err := w.rt.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
		var got []string
		for r := range all {
			got = append(got, r.Result.String())
		}
		if !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("all = %q", got)
		}
		for r := range none {
			t.Errorf("none has %v", r.Key)
		}
	})
}

// TestT02TimerAndResult checks that a call is resolved once, whatever races (T02).
func TestT02TimerAndResult(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const n = 200
		tool := w.tool("tool.test")
		rt := w.start(tool.base)
		var wg sync.WaitGroup
		for i := range n {
			key, err := rt.Call(t.Context(), Request{GroupID: "g", ID: fmt.Sprint(i), Operation: "echo", Lifetime: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			url := tool.callbackOf(key)
			wg.Go(func() {
				<-time.After(time.Minute)
				w.post(url, result(key, "just in time"))
			})
			if i%3 == 0 {
				wg.Go(func() {
					<-time.After(time.Minute)
					rt.Cancel(t.Context(), key)
				})
			}
		}
		wg.Wait()
		st := w.stats()
		if st.Results+st.Failures != n || st.Attempts != n {
			t.Errorf("stats %+v, want %d resolutions", st.Counts, n)
		}
		if cancelled := uint64((n + 2) / 3); st.Late+st.Duplicates < cancelled {
			t.Errorf("stats %+v, want at least %d inputs dropped", st.Counts, cancelled)
		}
	})
}
