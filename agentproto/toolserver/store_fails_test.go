package toolserver_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// TestResultOfBrokenStore has a store fail when the result is there. It would catch a result that the runtime waits
// for in vain, and a call that is not over for the store when it works again: its function would run twice.
func TestResultOfBrokenStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		broken := toolserver.Breakable(rt.server)
		var runs atomic.Int32
		toolserver.Add(rt.server, "breaks", "Breaks the store.", func(context.Context, none) (string, error) {
			runs.Add(1)
			broken.Store(true)
			return "done", nil
		})
		rt.answer = func(int, received) (*http.Response, error) {
			broken.Store(false)
			return status(200), nil
		}
		rt.call("breaks", "c1", "{}")
		if got := rt.nextResult(); got != "done" {
			t.Errorf("result %q", got)
		}
		synctest.Wait()
		rt.call("breaks", "c1", "{}")
		synctest.Wait()
		if n := runs.Load(); n != 1 {
			t.Errorf("the function has run %d times", n)
		}
		if n := strings.Count(rt.log.String(), "result is not in the store"); n != 1 {
			t.Errorf("the log says %d times that the result is not in the store", n)
		}
		rt.close()
	})
}

// TestRetryAfterOfBrokenStore has a store fail, or not, when the runtime asks for a pause. It would catch a message that
// is lost or sent too early, and a log that does not say that a restart may send it too early.
func TestRetryAfterOfBrokenStore(t *testing.T) {
	for _, breaks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			rt := newRuntime(t, toolserver.Options{})
			broken := toolserver.Breakable(rt.server)
			addTools(rt.server)
			rt.answer = func(n int, _ received) (*http.Response, error) {
				if n == 1 {
					broken.Store(breaks)
					return status(503, "Retry-After", "60"), nil
				}
				broken.Store(false)
				return status(200), nil
			}
			began := time.Now()
			rt.call("add", "c1", `{"a":1,"b":2}`)
			if got := rt.nextResult(); got != "3" {
				t.Errorf("result %q", got)
			}
			if waited := time.Since(began); waited < time.Minute || waited > 2*time.Minute {
				t.Errorf("it was sent again after %v", waited)
			}
			synctest.Wait()
			if said := strings.Contains(rt.log.String(), "Retry-After is not in the store"); said != breaks {
				t.Errorf("the store is broken: %v, the log says so: %v", breaks, said)
			}
			rt.close()
		})
	}
}
