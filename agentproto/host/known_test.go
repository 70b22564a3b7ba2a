package host

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host/internal/recent"
)

// TestKnown checks that Known reports calls that were made: pending, resolved, moved away and moved here. It reports no others.
func TestKnown(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.MigrationKey = sharedKey
		tool, key, url := w.pending()
		second := w.another("second.test", &user{}, nil, tool.base)
		want := func(rt *Runtime, key agentproto.CallKey, want bool) {
			t.Helper()
			if got, err := rt.Known(t.Context(), key); got != want || err != nil {
				t.Errorf("Known(%v) = %t, %v; want %t", key, got, err, want)
			}
		}
		want(w.rt, key, true)
		for _, k := range []agentproto.CallKey{
			{GroupID: key.GroupID, ID: "never"}, {GroupID: key.ID, ID: key.GroupID}, {},
			{GroupID: strings.Repeat("x", 1<<16), ID: "x"}, {GroupID: "\xff", ID: "x"}, {GroupID: "a\nb", ID: "x"},
		} {
			want(w.rt, k, false)
		}
		want(second, key, false)
		w.call(key.GroupID, "moves")
		synctest.Wait()
		moves := agentproto.CallKey{GroupID: key.GroupID, ID: "moves"}
		w.post(url, result(key, "ok"))
		if got := w.text(key); got != "ok" {
			t.Fatalf("result %q, want ok", got)
		}
		forgetful(w.rt)
		want(w.rt, key, true)
		if err := w.rt.Migrate(t.Context(), key.GroupID, second.PublicURL()); err != nil {
			t.Fatal(err)
		}
		if known, err := w.rt.Known(t.Context(), moves); known || !errors.Is(err, ErrElsewhere) {
			t.Errorf("at the source: %t, %v; want %v", known, err, ErrElsewhere)
		}
		forgetful(second)
		want(second, moves, true)
		want(second, agentproto.CallKey{GroupID: key.GroupID, ID: "never"}, false)
		want(second, moves, true)
	})
}

// forgetful clears the known calls of a runtime, as a restart does.
func forgetful(rt *Runtime) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.known = recent.Map[agentproto.CallKey, bool]{}
}

// TestKeyOfLastingCall keeps a call pending for longer than its key is remembered. It catches a call that is not found while it
// is pending, one whose key and result another call takes over, one that can no longer be cancelled, and one that stays known
// forever.
func TestKeyOfLastingCall(t *testing.T) {
	for _, ends := range []string{"by its result", "cancelled"} {
		t.Run(ends, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				tool := w.tool("tool.test", "echo")
				w.start(tool.base)
				request := Request{GroupID: "g", ID: "1", Operation: "echo", Lifetime: 100 * time.Hour}
				key, err := w.rt.Call(t.Context(), request)
				if err != nil {
					t.Fatal(err)
				}
				url := tool.callback()
				w.pass(50 * time.Hour)
				known := func(want bool) {
					t.Helper()
					if got, err := w.rt.Known(t.Context(), key); got != want || err != nil {
						t.Errorf("it is known: %t, %v, want %t", got, err, want)
					}
				}
				known(true)
				if _, err := w.rt.Call(t.Context(), request); !errors.Is(err, ErrDuplicateCall) {
					t.Errorf("a second call: %v, want %v", err, ErrDuplicateCall)
				}
				again, _, err := w.rt.prepare(t.Context(), &request, agentproto.Trace{}) // as in a process without the session
				if err == nil {
					err = w.rt.program.Call(t.Context(), again)
				}
				if err != nil {
					t.Fatal(err)
				}
				if n := len(tool.invocations()); n != 1 {
					t.Errorf("%d invocations, want that of the first call", n)
				}
				want := agentproto.ByResult
				if ends == "cancelled" {
					want = agentproto.ByInterruption
					if err := (host{w.rt}).CancelCall(t.Context(), key.GroupID, &conversation.ThreadCall{Call: conversation.Call{ID: key.ID}}); err != nil {
						t.Error(err)
					}
				} else {
					w.post(url, result(key, "a"))
				}
				if r, err := w.rt.Await(t.Context(), key); err != nil || r.Cause != want {
					t.Errorf("%+v, %v, want %v", r, err, want)
				}
				w.pass(23 * time.Hour)
				known(true)
				w.pass(2 * time.Hour)
				known(false)
			})
		})
	}
}
