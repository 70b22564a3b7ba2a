package toolserver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// TestN61_RuntimeThatIsDown has a runtime refuse its results until they are given up. The test fails if that runtime can fill the
// server for others, or if results are kept after they were given up.
func TestN61_RuntimeThatIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{CallbackHorizon: 2 * time.Hour})
		toolserver.Add(rt.server, "large", "Says much.", func(context.Context, none) (string, error) { return strings.Repeat("x", 1<<20-1000), nil })
		rt.answer = func(_ int, m received) (*http.Response, error) {
			if strings.HasPrefix(m.url, "https://down.example") {
				return status(503, "Retry-After", "3600"), nil
			}
			return status(200), nil
		}
		accepted := 0
		for i := range 80 {
			if rt.invoke("large", fmt.Sprint("c", i), "{}", callback("https://down.example/cb")) == 200 {
				accepted++
			}
			synctest.Wait()
		}
		if accepted != 65 {
			t.Errorf("%d calls of 1 MiB were accepted, want 64 MiB and the one that exceeds it", accepted)
		}
		rt.call("large", "other", "{}")
		rt.nextResult()
		<-time.After(3 * time.Hour)
		if code := rt.invoke("large", "later", "{}", callback("https://down.example/cb")); code != 200 {
			t.Errorf("when all was given up, a call is answered %d", code)
		}
		rt.post("/close_thread", `{"thread_id":"thread-1"}`)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		rt.server.Close(ctx)
	})
}

// TestN63_ManyViews has a function send views faster than its runtime accepts them.
func TestN63_ManyViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		var shown atomic.Int32
		toolserver.Add(rt.server, "draw", "Draws.", func(ctx context.Context, _ none) (string, error) {
			for i := range 300 {
				if err := toolserver.View(ctx, "v", map[string]string{"n": fmt.Sprint(i), "much": strings.Repeat("x", 100_000)}); err != nil {
					return "", err
				}
				shown.Add(1)
			}
			return "drawn", nil
		})
		rt.answer = func(int, received) (*http.Response, error) {
			<-time.After(time.Second)
			return status(200), nil
		}
		rt.call("draw", "c1", "{}")
		<-time.After(time.Second / 2)
		synctest.Wait()
		if n := shown.Load(); n < 35 || n > 42 {
			t.Errorf("%d views of 100 kB are on their way, want 4 MiB", n)
		}
		last := ""
		for range 300 {
			m := rt.next()
			last = string(m.Callback.(*agentproto.ViewUpdate).Content)
		}
		if !strings.Contains(last, `"299"`) {
			t.Errorf("the last view is %.40s", last)
		}
		if got := rt.nextResult(); got != "drawn" {
			t.Errorf("result %q", got)
		}
		rt.close()
	})
}

// TestN91_N92_EarlyCancellation cancels calls before they are made, also with a restart in between.
func TestN91_N92_EarlyCancellation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ahead   time.Duration
		restart bool
		runs    bool
	}{{30 * time.Second, false, false}, {30 * time.Second, true, false}, {90 * time.Second, false, true}} {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(t, toolserver.Options{Status: true}, addTools)
			cancel := func() { h.post("/cancel_tool_call", `{"thread_id":"child","tool_call_id":"c1"}`) }
			cancel()
			if c.restart {
				h.end()
				h.begin()
			}
			<-time.After(c.ahead)
			for range 2 {
				h.call("add", "c1", `{"a":1,"b":2}`, thread("child"), ancestors("root"))
			}
			if c.runs {
				if got := h.nextResult(); got != "3" {
					t.Errorf("result %q", got)
				}
			}
			synctest.Wait()
			if w := h.post("/tool_call_status", `{"thread_id":"child","tool_call_id":"c1"}`); w.Body.String() != `{"alive":false}` {
				t.Errorf("it is %s", w.Body)
			}
			cancel()
			h.post("/close_thread", `{"thread_id":"child"}`)
			h.close()
		})
	}
}
