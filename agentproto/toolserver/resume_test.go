package toolserver_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// A house is a runtime whose tool server can be ended at any moment and restarted with its
// state. The runtime keeps what it received.
type house struct {
	*runtime
	opts  toolserver.Options
	tools func(*toolserver.Server)
}

func newHouse(t *testing.T, opts toolserver.Options, tools func(*toolserver.Server)) *house {
	opts.State = t.TempDir()
	h := &house{runtime: newRuntime(t, opts), tools: tools}
	h.opts = h.runtime.opts
	h.seen = make(map[string]bool) // a message being delivered at the end is sent again
	tools(h.server)
	return h
}

// end closes the server without waiting.
func (h *house) end() {
	h.t.Helper()
	now, stop := context.WithCancel(h.t.Context())
	stop()
	if err := h.server.Close(now); err != nil && !errors.Is(err, context.Canceled) {
		h.t.Error(err)
	}
}

// begin starts a server with the state of the previous one.
func (h *house) begin() {
	h.t.Helper()
	server, err := toolserver.Open(h.opts)
	if err != nil {
		h.t.Fatal(err)
	}
	h.server = server
	h.tools(server)
	if err := server.Start(); err != nil {
		h.t.Fatal(err)
	}
}

func TestA09_InFlightCallsRunAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var keys []string
		h := newHouse(t, toolserver.Options{}, func(s *toolserver.Server) {
			work := func(ctx context.Context, in numbers) (int, error) {
				mu.Lock()
				keys = append(keys, toolserver.IdempotencyKey(ctx))
				mu.Unlock()
				select {
				case <-time.After(time.Minute):
					return in.A + in.B, nil
				case <-ctx.Done():
					return 0, context.Cause(ctx)
				}
			}
			toolserver.Add(s, "work", "Works for a minute.", work)
			toolserver.AddWithOptions(s, "once", "Works for a minute, once.", toolserver.ToolOptions{RunOnce: true}, work)
		})
		h.call("work", "c1", `{"a":1,"b":2}`, callID("x"), user("ada"), ancestors("root"))
		<-time.After(30 * time.Second)
		h.end()
		<-time.After(time.Hour)
		h.begin()
		h.call("work", "c1", `{"a":1,"b":2}`, ancestors("root")) // the runtime repeats the call
		start := time.Now()
		m := h.next()
		if got := m.body; got != `{"type":"tool_result","group_id":"thread-1","id":"c1","call_id":"x","text":"3"}` || time.Since(start) != time.Minute {
			t.Errorf("%s after %v", got, time.Since(start))
		}
		mu.Lock()
		if len(keys) != 2 || keys[0] != keys[1] || len(keys[0]) != 64 {
			t.Errorf("keys %q", keys)
		}
		mu.Unlock()
		h.call("once", "c2", `{"a":1,"b":2}`)
		synctest.Wait()
		h.end()
		h.begin()
		if got := h.nextResult(); !strings.HasPrefix(got, "Error: the tool server was restarted") {
			t.Errorf("result %q", got)
		}
		synctest.Wait()
		h.end()
		h.begin()
		h.call("work", "c1", `{"a":1,"b":2}`, ancestors("root")) // finished before the restart (A06)
		h.call("once", "c2", `{"a":1,"b":2}`)
		h.close()
		mu.Lock()
		defer mu.Unlock()
		if len(keys) != 3 || keys[2] == keys[0] {
			t.Errorf("keys %q", keys)
		}
	})
}

func TestA09_UnknownAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, toolserver.Options{}, addTools)
		h.call("wait", "c1", "{}")
		h.end()
		h.tools = func(*toolserver.Server) {}
		h.begin()
		if got := h.nextResult(); got != `Error: unknown tool "wait"` {
			t.Errorf("result %q", got)
		}
		h.close()
	})
}

func TestA06_NotKeptIsNotAccepted(t *testing.T) {
	h := newHouse(t, toolserver.Options{}, addTools)
	h.end() // the file is closed, so nothing can be stored
	if code := h.invoke("add", "c1", `{"a":1,"b":2}`); code != 503 {
		t.Errorf("answered %d", code)
	}
}

func TestC03_DeliveredAfterRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, toolserver.Options{}, addTools)
		var down atomic.Bool
		down.Store(true)
		h.answer = func(int, received) (*http.Response, error) {
			if down.Load() {
				return nil, errRefusedConnection
			}
			return status(200), nil
		}
		start := time.Now()
		h.call("add", "c1", `{"a":1,"b":2}`)
		<-time.After(3 * time.Minute)
		h.end()
		<-time.After(time.Minute)
		h.begin()
		<-time.After(time.Minute)
		down.Store(false)
		m := h.next()
		if d := time.Since(start); d > 10*time.Minute {
			t.Errorf("delivered after %v: the schedule does not go on by age", d)
		}
		sent := h.sent()
		for _, a := range sent {
			if a.id != m.id || a.body != m.body {
				t.Errorf("attempts differ: %q, %q", a.id, m.id)
			}
		}
		if len(sent) > 10 {
			t.Errorf("%d attempts: the schedule began anew", len(sent))
		}
		synctest.Wait()
		h.end()
		h.begin()
		h.close() // the result is not sent again
	})
}

func TestC04_RetryAfterAcrossRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, toolserver.Options{}, addTools)
		h.answer = func(n int, _ received) (*http.Response, error) {
			if n == 1 {
				return status(503, "Retry-After", "600"), nil
			}
			return status(200), nil
		}
		start := time.Now()
		h.call("add", "c1", `{"a":1,"b":2}`)
		synctest.Wait()
		h.end()
		h.begin()
		h.nextResult()
		if d := time.Since(start); d < 600*time.Second {
			t.Errorf("tried again after %v", d)
		}
		h.close()
	})
}

func TestK06_CancelledStaysCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, toolserver.Options{}, addTools)
		h.call("wait", "c1", "{}")
		h.post("/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"c1"}`)
		h.end()
		h.begin()
		h.call("wait", "c1", "{}")
		h.close()
	})
}

func TestStateInUse(t *testing.T) {
	t.Parallel()
	h := newHouse(t, toolserver.Options{}, addTools)
	if _, err := toolserver.Open(h.opts); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("Open = %v", err)
	}
	h.close()
}

// TestHungRuntime has a runtime that never answers. It does not delay messages to other
// runtimes.
func TestHungRuntime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		addTools(rt.server)
		rt.answer = func(_ int, m received) (*http.Response, error) {
			if strings.HasPrefix(m.url, "https://hung.example") {
				return nil, nil
			}
			return status(200), nil
		}
		for i := range 1000 {
			rt.call("add", "h"+string(rune('a'+i%26))+strings.Repeat("x", i/26), `{"a":1,"b":2}`, callback("https://hung.example/cb"))
		}
		synctest.Wait()
		if n := len(rt.sent()); n != 64 {
			t.Errorf("%d attempts at once", n)
		}
		start := time.Now()
		rt.call("add", "c1", `{"a":1,"b":2}`)
		rt.nextResult()
		if d := time.Since(start); d != 0 {
			t.Errorf("another runtime waited for %v", d)
		}
		rt.post("/close_thread", `{"thread_id":"thread-1"}`)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		rt.server.Close(ctx)
	})
}
