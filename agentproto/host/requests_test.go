package host

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
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

// TestDeepArguments checks that arguments are refused by the same limit as the invocation that contains them.
func TestDeepArguments(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		rt := w.start(tool.base)
		for depth, want := range map[int]string{
			63: "", 64: "nests deeper than 63", 65: "nests deeper than 63", 100: "nests deeper than 63",
		} {
			args := `{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + "}"
			before := len(tool.invocations())
			key, err := rt.Call(t.Context(), Request{GroupID: "g", ID: fmt.Sprint(depth), Operation: "echo", Arguments: jsontext.Value(args)})
			if err != nil {
				t.Fatal(err)
			}
			w.pass(time.Second)
			if want == "" {
				if n := len(tool.invocations()) - before; n != 1 {
					t.Errorf("depth %d: %d invocations", depth, n)
				}
				continue
			}
			if got := w.text(key); !strings.Contains(got, want) {
				t.Errorf("depth %d: %q, want %q", depth, got, want)
			}
		}
	})
}

// TestLargeCall checks that an invocation of more than 1 MiB is not sent, and that its result names the size.
func TestLargeCall(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		rt := w.start(tool.base)
		args := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
		key, err := rt.Call(t.Context(), Request{GroupID: "g", ID: "large", Operation: "echo", Arguments: jsontext.Value(args)})
		if err != nil {
			t.Fatal(err)
		}
		if got := w.text(key); !strings.Contains(got, "the call has 1048") || !strings.Contains(got, "at most 1048576") {
			t.Errorf("result %q", got)
		}
		if n := len(tool.invocations()); n != 0 {
			t.Errorf("%d invocations", n)
		}
	})
}
