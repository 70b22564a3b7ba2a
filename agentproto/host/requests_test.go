package host

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

// TestLongUserID checks that only the ids of threads and calls are limited to [MaxID]. A user_id and a call_id are in no URL and may
// have 1024 bytes.
func TestLongUserID(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		rt := w.start(tool.base)
		long := strings.Repeat("u", 1024)
		if _, err := rt.Call(t.Context(), Request{GroupID: "g", UserID: long, CallID: long, Operation: "echo"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got := tool.invocations()
		if len(got) != 1 || *got[0].UserID != long || *got[0].CallID != long {
			t.Errorf("%d invocations", len(got))
		}
		for _, r := range []Request{{UserID: long + "u"}, {CallID: long + "u"}, {UserID: "\n"}, {CallID: "\u2028"}} {
			r.GroupID, r.Operation = "g", "echo"
			if _, err := rt.Call(t.Context(), r); !errors.Is(err, ErrBadID) {
				t.Errorf("user_id of %d bytes, call_id of %d: %v, want ErrBadID", len(r.UserID), len(r.CallID), err)
			}
		}
	})
}
