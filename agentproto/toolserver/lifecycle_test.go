package toolserver_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// addStubborn adds a tool that ignores its context.
func addStubborn(s *toolserver.Server, ended *error) {
	toolserver.Add(s, "stubborn", "Takes a minute, whatever happens.", func(ctx context.Context, _ none) (string, error) {
		<-time.After(time.Minute)
		*ended = context.Cause(ctx)
		return "done", nil
	})
}

func TestK04_K05_CancelWithoutEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		var ended error
		addStubborn(rt.server, &ended)
		rt.call("stubborn", "c1", "{}")
		for _, body := range []string{
			`{"thread_id":"thread-1","tool_call_id":"c2"}`,
			`{"thread_id":"thread-2","tool_call_id":"c1"}`,
			`{"thread_id":"../../etc/passwd","tool_call_id":"c1"}`,
		} {
			if w := rt.post("/cancel_tool_call", body); w.Code != 200 || w.Body.Len() != 0 {
				t.Errorf("%s: %d %q", body, w.Code, w.Body)
			}
		}
		if got := rt.nextResult(); got != "done" || ended != nil {
			t.Errorf("result %q, context %v", got, ended)
		}
		for range 2 { // after completion
			if w := rt.post("/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"c1"}`); w.Code != 200 || w.Body.Len() != 0 {
				t.Errorf("%d %q", w.Code, w.Body)
			}
		}
		rt.close()
	})
}

func TestK05_CancelByAnotherRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{Authenticate: func(r *http.Request) (string, error) {
			return r.Header.Get("Authorization"), nil
		}})
		var ended error
		addStubborn(rt.server, &ended)
		rt.post("/invoke", `{"operation":"stubborn","id":"c1","group_id":"g","callback_url":"https://runtime.example/cb"}`, "Authorization", "one")
		rt.post("/cancel_tool_call", `{"thread_id":"g","tool_call_id":"c1"}`, "Authorization", "two")
		rt.post("/close_thread", `{"thread_id":"g"}`, "Authorization", "two")
		if got := rt.nextResult(); got != "done" || ended != nil {
			t.Errorf("result %q, context %v", got, ended)
		}
		rt.close()
	})
}

func TestK06_CancelRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		var ended error
		addStubborn(rt.server, &ended)
		addTools(rt.server)
		start := time.Now()
		rt.call("stubborn", "c1", "{}")
		rt.call("wait", "c2", "{}")
		synctest.Wait()
		for range 2 {
			for _, id := range []string{"c1", "c2"} {
				if w := rt.post("/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"`+id+`"}`); w.Code != 200 || w.Body.Len() != 0 {
					t.Errorf("%d %q", w.Code, w.Body)
				}
			}
		}
		rt.call("wait", "c2", "{}") // a repeated invocation does not restart it
		rt.close()                  // there is no result
		if !errors.Is(ended, toolserver.ErrCancelled) || time.Since(start) != time.Minute {
			t.Errorf("context ended with %v after %v", ended, time.Since(start))
		}
	})
}

func TestK07_CancelDuringChoice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		addMenu(rt.server)
		start := time.Now()
		rt.call("menu", "c1", "{}")
		_, path := rt.question()
		rt.post("/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"c1"}`)
		synctest.Wait()
		if w := rt.post(path, `{"id":"c1","selected":0}`); w.Code != 200 {
			t.Errorf("late answer: %d", w.Code)
		}
		rt.close()
		if time.Since(start) != 0 {
			t.Errorf("the waiter was released after %v", time.Since(start))
		}
	})
}

func TestK07_CancelStopsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		addMenu(rt.server)
		rt.answer = func(int, received) (*http.Response, error) { return status(503), nil }
		start := time.Now()
		rt.call("menu", "c1", "{}")
		synctest.Wait()
		rt.post("/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"c1"}`)
		rt.close()
		if time.Since(start) != 0 || len(rt.sent()) != 1 {
			t.Errorf("%d attempts in %v", len(rt.sent()), time.Since(start))
		}
	})
}

func TestX01_CloseThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		addTools(rt.server)
		addMenu(rt.server)
		rt.call("wait", "c1", "{}")
		rt.call("wait", "c2", "{}")
		rt.call("menu", "c3", "{}")
		rt.call("menu", "c1", "{}", thread("thread-2"))
		other := ""
		for range 2 {
			if q, path := rt.question(); q.GroupID == "thread-2" {
				other = path
			}
		}
		for range 2 {
			if w := rt.post("/close_thread", `{"thread_id":"thread-1"}`); w.Code != 200 || w.Body.Len() != 0 {
				t.Errorf("%d %q", w.Code, w.Body)
			}
		}
		synctest.Wait()
		rt.post(other, `{"id":"c1","selected":0}`)
		if got := rt.nextResult(); got != "soup" {
			t.Errorf("the other thread got %q", got)
		}
		rt.close()
	})
}

func TestX04_HostileNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		addTools(rt.server)
		for _, body := range []string{
			`{"thread_id":"unknown"}`,
			`{"thread_id":"../../etc"}`,
			`{"thread_id":"a\u0000b"}`,
			`{"thread_id":"` + strings.Repeat("x", 1<<19) + `"}`,
			`{"thread_id":7}`,
			`{}`,
			`null`,
		} {
			if w := rt.post("/close_thread", body); w.Code != 200 && w.Code != 400 && w.Code != 413 {
				t.Errorf("%.40s: %d", body, w.Code)
			}
		}
		rt.close()
	})
}
