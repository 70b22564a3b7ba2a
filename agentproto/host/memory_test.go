package host

import (
	"errors"
	"testing"

	"github.com/millrace/millrace/agentproto"
)

// TestFull fills the memory while one call is pending. It catches a result that is then refused, and a new call that is not.
func TestFull(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, key, url := w.pending()
		live := int64(0)
		w.rt.memory.Limit, w.rt.memory.Live, w.rt.memory.Free = 100, func() int64 { return live }, func() {}
		live = 95
		if _, err := w.rt.Call(t.Context(), Request{GroupID: "g", ID: "2", Operation: "echo"}); !errors.Is(err, ErrFull) {
			t.Errorf("a call: %v", err)
		}
		if status := w.post(url, result(key, "a")); status != 200 {
			t.Errorf("the result is answered %d", status)
		}
		if r, err := w.rt.Await(t.Context(), key); err != nil || r.Cause != agentproto.ByResult {
			t.Errorf("%+v, %v", r, err)
		}
		live = 80
		w.call("g", "2")
		if n := len(tool.invocations()); n != 2 {
			t.Errorf("%d invocations, want 2", n)
		}
	})
}
