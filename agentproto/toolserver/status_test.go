package toolserver_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

func TestE02_Status(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, toolserver.Options{Status: true}, func(s *toolserver.Server) {
			addFeed(s, nil)
			addTools(s)
		})
		is := func(id string, want bool) {
			t.Helper()
			w := h.post("/tool_call_status", `{"thread_id":"thread-1","tool_call_id":"`+id+`"}`)
			if got := w.Body.String(); w.Code != 200 || got != fmt.Sprintf(`{"alive":%t}`, want) {
				t.Errorf("%s: %d %s", id, w.Code, got)
			}
		}
		is("unknown", false)
		h.call("wait", "c1", "{}")
		is("c1", true)
		var down atomic.Bool
		down.Store(true)
		synctest.Wait()
		h.answer = func(int, received) (*http.Response, error) {
			if down.Load() {
				return status(503), nil
			}
			return status(200), nil
		}
		h.call("add", "c2", `{"a":1,"b":2}`)
		synctest.Wait()
		is("c2", true) // its result is to come
		h.end()
		h.begin()
		is("c1", true)
		is("c2", true)
		down.Store(false)
		h.nextResult()
		synctest.Wait()
		is("c2", false)
		h.post("/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"c1"}`)
		is("c1", false)
		h.call("feed", "c3", `{"from":8}`)
		h.opened()
		synctest.Wait()
		is("c3", true)
		h.event()
		h.event()
		synctest.Wait()
		is("c3", false)
		if w := h.post("/tool_call_status", `{"thread_id":"thread-1"}`); w.Code != 400 {
			t.Errorf("without an id: %d", w.Code)
		}
		h.close()

		rt := newRuntime(t, toolserver.Options{})
		if w := rt.post("/tool_call_status", `{"thread_id":"g","tool_call_id":"c"}`); w.Code != 404 {
			t.Errorf("not an option: %d", w.Code)
		}
		rt.close()
	})
}

func TestView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		var errs []error
		var late context.Context
		toolserver.Add(rt.server, "draw", "Draws.", func(ctx context.Context, _ none) (string, error) {
			late = ctx
			for _, content := range []any{map[string]int{"done": 1}, struct{}{}, nil, 7, "x", []int{1}, func() {}} {
				errs = append(errs, toolserver.View(ctx, "progress", content))
			}
			errs = append(errs, toolserver.View(ctx, "", nil))
			return "drawn", nil
		})
		rt.call("draw", "c1", "{}")
		for _, want := range []string{`{"done":1}`, `{}`, `{}`} {
			m := rt.next()
			if v, ok := m.Callback.(*agentproto.ViewUpdate); !ok || v.ViewType != "progress" || v.GroupID != "thread-1" || string(v.Content) != want {
				t.Errorf("got %s, want %s", m.body, want)
			}
		}
		if got := rt.nextResult(); got != "drawn" {
			t.Errorf("result %q", got)
		}
		for i, err := range errs {
			if (err != nil) != (i >= 3) {
				t.Errorf("view %d: %v", i, err)
			}
		}
		if err := toolserver.View(late, "progress", nil); err == nil {
			t.Error("a call that has ended has a view")
		}
		rt.close()
	})
}
