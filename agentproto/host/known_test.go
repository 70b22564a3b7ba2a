package host

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/agentproto"
)

// TestKnown tells calls that were made from others: pending, resolved, moved away and moved
// here.
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

// forgetful has a runtime know as little as one that starts again.
func forgetful(rt *Runtime) {
	rt.known.mu.Lock()
	defer rt.known.mu.Unlock()
	clear(rt.known.young)
	clear(rt.known.old)
}
