package host

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
)

// TestKeyOfForgottenCall reuses the key of a call that was resolved two days ago, and posts to the first call's URL, which is
// still valid. It catches a late result that becomes the other call's.
func TestKeyOfForgottenCall(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test", "echo")
		w.start(tool.base)
		call := func() (agentproto.CallKey, string) {
			key, err := w.rt.Call(t.Context(), Request{GroupID: "g", ID: "1", Operation: "echo"})
			if err != nil {
				t.Fatal(err)
			}
			return key, tool.callback()
		}
		key, first := call()
		w.post(first, result(key, "a"))
		w.pass(49 * time.Hour)
		_, second := call()
		if status := w.post(first, result(key, "late")); status != 200 {
			t.Errorf("the late result is answered %d", status)
		}
		w.post(second, result(key, "b"))
		if r, err := w.rt.Await(t.Context(), key); err != nil || r.Result.String() != "b" {
			t.Errorf("the second call has %+v, %v", r, err)
		}
		if st := w.stats(); st.Late != 1 {
			t.Errorf("stats %+v", st.Counts)
		}
	})
}

// TestNoticesAreKept makes calls that tell their threads that they continue and how much is stored of them, and then replays the
// history. It catches a notice that reaches the thread but not the history.
func TestNoticesAreKept(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test", "echo")
		sealer, err := SealerOf([32]byte{1})
		if err != nil {
			t.Fatal(err)
		}
		state := durable.Options{Log: disklog.Dir(t.TempDir()), Partitions: 1, KeepFor: durable.Forever}
		limits := conversation.Limits{Retain: time.Hour}
		w.opts = Options{Sealer: sealer, State: &state, Conversation: limits, Timeouts: Timeouts{Call: 10 * time.Hour}}
		w.start(tool.base)
		key := w.call("g", "1")
		w.pass(5 * time.Hour)
		other := w.call("g", "2")
		w.post(tool.callbackOf(other), result(other, strings.Repeat("x", 100_000)))
		w.pass(time.Minute)
		if err := w.rt.CloseThread(t.Context(), "g"); err != nil {
			t.Fatal(err)
		}
		if r, err := w.rt.Await(t.Context(), key); err != nil || r.Cause != agentproto.ByClosure {
			t.Errorf("%+v, %v", r, err)
		}
		if err := w.rt.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		h, err := OpenHistory(t.Context(), state, limits)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		info, err := h.Partition(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		last := uint64(0)
		for s, err := range h.Steps(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			last = s.Number
		}
		if err := h.Replay(t.Context(), 0, last-1, io.Discard, 0); err != nil {
			t.Errorf("%+v: %v", info, err)
		}
	})
}
