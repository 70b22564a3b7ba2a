package host

import (
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// TestKeyOfForgottenCall uses the key of a call again that was resolved two days ago, and posts to the callback URL of the first, which is
// still good. It would catch a late result that becomes that of another call.
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
