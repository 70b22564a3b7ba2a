package toolserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

func TestA01_AcknowledgedBeforeWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		toolserver.Add(rt.server, "slow", "Takes an hour.", func(ctx context.Context, _ none) (string, error) {
			select {
			case <-time.After(time.Hour):
				return "done", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		})
		start := time.Now()
		rt.call("slow", "c1", "{}")
		if d := time.Since(start); d != 0 {
			t.Errorf("acknowledged after %v", d)
		}
		if got := rt.nextResult(); got != "done" || time.Since(start) != time.Hour {
			t.Errorf("got %q after %v", got, time.Since(start))
		}
		rt.close()
	})
}

func TestA02_A03_ErrorResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		addTools(rt.server)
		toolserver.Add(rt.server, "channel", "Returns what cannot be encoded.", func(context.Context, none) (any, error) { return make(chan int), nil })
		toolserver.Add(rt.server, "small", "Takes a small map.", func(_ context.Context, in map[string]int8) (int, error) { return len(in), nil })
		for i, c := range []struct{ op, args, want string }{
			{"nothing", "{}", `Error: unknown tool "nothing"`},
			{"Add", "{}", `Error: unknown tool "Add"`},
			{"add", `{"a":1,"b":"two"}`, `Error: argument "/b": `},
			{"add", `{"a":1}`, `Error: argument`},
			{"add", `{"a":1,"b":2,"c":3}`, `Error: argument`},
			{"add", `{"A":1,"b":2}`, `Error: argument`},
			{"add", `{"a":1,"b":99999999999999999999}`, `Error: the arguments are not valid: member "/b" is out of range`},
			{"small", `{"x":300}`, `Error: argument "/x": `},
			{"fail", `{}`, "Error: no luck"},
			{"channel", `{}`, "Error: the result cannot be encoded"},
		} {
			rt.call(c.op, fmt.Sprint("c", i), c.args)
			got := rt.nextResult()
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("%s(%s) = %q, want %q", c.op, c.args, got, c.want)
			}
			if strings.Contains(got, "toolserver") || strings.Contains(got, "int64") {
				t.Errorf("%s(%s) tells internals: %q", c.op, c.args, got)
			}
		}
		rt.close()
	})
}

func TestA03_ArgumentsAbsentOrNull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		toolserver.Add(rt.server, "ping", "Pongs.", func(context.Context, none) (string, error) { return "pong", nil })
		for i, args := range []string{"", `"arguments":null,`, `"arguments":{},`} {
			body := fmt.Sprintf(`{"operation":"ping",%s"id":"c%d","group_id":"g","callback_url":"https://runtime.example/cb"}`, args, i)
			if w := rt.post("/invoke", body); w.Code != 200 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			if got := rt.nextResult(); got != "pong" {
				t.Errorf("%s: %q", args, got)
			}
		}
		rt.close()
	})
}

func TestA04_A05_Refused(t *testing.T) {
	good := `{"operation":"add","arguments":{"a":1,"b":2},"id":"c1","group_id":"g","callback_url":"https://runtime.example/cb"}`
	without := func(member string) string {
		return strings.Replace(good, `"`+member+`":`, `"x":`, 1)
	}
	rt := newRuntime(t, toolserver.Options{Limits: agentproto.Limits{Bytes: 4096}, CallbackOrigins: []string{"https://runtime.example"}})
	addTools(rt.server)
	for _, c := range []struct {
		name, body string
		header     []string
		code       int
		words      string
	}{
		{"not JSON", `{`, nil, 400, ""},
		{"an array", `[]`, nil, 400, ""},
		{"trailing data", good + "{}", nil, 400, ""},
		{"repeated member", strings.Replace(good, `{`, `{"id":"c0",`, 1), nil, 400, "id"},
		{"no id", without("id"), nil, 400, `"/id"`},
		{"no callback_url", without("callback_url"), nil, 400, `"/callback_url"`},
		{"no group_id", without("group_id"), nil, 400, `"/group_id"`},
		{"no operation", without("operation"), nil, 400, `"/operation"`},
		{"arguments that are a list", strings.Replace(good, `{"a":1,"b":2}`, `[1,2]`, 1), nil, 400, `"/arguments"`},
		{"other origin", strings.Replace(good, "runtime.example", "evil.example", 1), nil, 400, `"/callback_url"`},
		{"other scheme", strings.Replace(good, "https:", "file:", 1), nil, 400, `"/callback_url"`},
		{"user in the URL", strings.Replace(good, "https://", "https://u:p@", 1), nil, 400, `"/callback_url"`},
		{"text", good, []string{"Content-Type", "text/plain"}, 415, ""},
		{"no type", good, []string{"Content-Type", ""}, 415, ""},
		{"compressed", good, []string{"Content-Encoding", "gzip"}, 415, ""},
		{"from a browser", good, []string{"Origin", "https://evil.example"}, 403, ""},
		{"too large", good + strings.Repeat(" ", 4096), nil, 413, ""},
	} {
		w := rt.post("/invoke", c.body, c.header...)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.words) {
			t.Errorf("%s: %d %s, want %d %s", c.name, w.Code, w.Body, c.code, c.words)
		}
	}
	chunked := httptest.NewRequest(http.MethodPost, "/invoke", struct{ *strings.Reader }{strings.NewReader(strings.Repeat(" ", 8192))})
	chunked.ContentLength = -1
	chunked.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	if rt.server.ServeHTTP(w, chunked); w.Code != 413 {
		t.Errorf("too large without a length: %d", w.Code)
	}
	for _, path := range []string{"/invoke", "/close_thread", "/cancel_tool_call"} {
		w := httptest.NewRecorder()
		if rt.server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil)); w.Code != 405 {
			t.Errorf("GET %s: %d, want 405", path, w.Code)
		}
	}
	rt.close() // nothing was executed
}

func TestA06_RepeatedInvocationRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{Remember: time.Hour})
		var runs atomic.Int32
		toolserver.Add(rt.server, "count", "Counts.", func(ctx context.Context, _ none) (int, error) {
			<-time.After(time.Second)
			return int(runs.Add(1)), nil
		})
		rt.call("count", "c1", "{}")
		rt.call("count", "c1", "{}") // while it runs
		if got := rt.nextResult(); got != "1" {
			t.Errorf("result %q", got)
		}
		synctest.Wait()
		rt.call("count", "c1", "{}") // when it has ended
		<-time.After(59 * time.Minute)
		rt.call("count", "c1", "{}") // much later
		synctest.Wait()
		if n := runs.Load(); n != 1 {
			t.Errorf("ran %d times", n)
		}
		<-time.After(3 * time.Hour)
		rt.call("count", "c1", "{}") // when it is forgotten
		if got := rt.nextResult(); got != "2" {
			t.Errorf("result %q", got)
		}
		rt.close()
	})
}

func TestA07_SameIDElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		addTools(rt.server)
		rt.call("add", "c1", `{"a":1,"b":1}`)
		rt.call("add", "c1", `{"a":2,"b":2}`, thread("thread-2"), callback("https://runtime.example/2"))
		rt.call("add", "c1", `{"a":3,"b":3}`, callback("https://other.example/3"))
		want := map[string]string{"https://runtime.example/rap/v1/cb/k1/c1": "2", "https://runtime.example/2": "4", "https://other.example/3": "6"}
		for range want {
			m := rt.next()
			if got := m.Callback.(*agentproto.ToolResult).String(); got != want[m.url] {
				t.Errorf("%s got %q, want %q", m.url, got, want[m.url])
			}
		}
		rt.close()
	})
}

func TestA08_Panic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		addTools(rt.server)
		toolserver.Add(rt.server, "exit", "Ends its goroutine.", func(context.Context, none) (string, error) {
			goruntime.Goexit()
			return "", nil
		})
		for _, op := range []string{"panic", "exit"} {
			rt.call(op, op, "{}")
			m := rt.next()
			if got := m.Callback.(*agentproto.ToolResult).String(); got != "Error: the tool failed unexpectedly" {
				t.Errorf("%s: %q", op, got)
			}
			for _, leak := range []string{"canary", "goroutine", ".go:"} {
				if strings.Contains(m.body, leak) {
					t.Errorf("%s: %q is on the wire: %s", op, leak, m.body)
				}
			}
		}
		if log := rt.log.String(); !strings.Contains(log, "canary-panic") || !strings.Contains(log, "invoke_test.go") && !strings.Contains(log, "runtime_test.go") {
			t.Errorf("the log does not tell where: %s", log)
		}
		rt.call("add", "c2", `{"a":1,"b":2}`)
		if got := rt.nextResult(); got != "3" {
			t.Errorf("the server is not alive: %q", got)
		}
		rt.close()
	})
}

func TestA10_Full(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{MaxCalls: 2, MaxRuntimeCalls: 2})
		release := make(chan struct{})
		toolserver.Add(rt.server, "hold", "Waits.", func(context.Context, none) (string, error) { <-release; return "ok", nil })
		rt.call("hold", "c1", "{}")
		rt.call("hold", "c2", "{}")
		body := `{"operation":"hold","id":"c3","group_id":"thread-1","callback_url":"https://runtime.example/3"}`
		if w := rt.post("/invoke", body); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Fatalf("%d %v", w.Code, w.Header())
		}
		rt.call("hold", "c1", "{}") // a repeated one needs no room
		close(release)
		rt.nextResult()
		rt.nextResult()
		synctest.Wait()
		if w := rt.post("/invoke", body); w.Code != 200 {
			t.Fatalf("retried: %d", w.Code)
		}
		rt.nextResult()
		rt.close()
	})
}

func TestA11_Authenticate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{Authenticate: func(r *http.Request) (string, error) {
			if r.Header.Get("Authorization") != "Bearer right" {
				return "", errors.New("wrong")
			}
			return "r1", nil
		}})
		addTools(rt.server)
		body := `{"operation":"add","arguments":{"a":1,"b":2},"id":"c1","group_id":"g","callback_url":"https://runtime.example/cb"}`
		for _, path := range []string{"/invoke", "/close_thread", "/cancel_tool_call"} {
			if w := rt.post(path, body, "Authorization", "Bearer wrong"); w.Code != 401 {
				t.Errorf("%s: %d, want 401", path, w.Code)
			}
		}
		synctest.Wait()
		if len(rt.sent()) != 0 {
			t.Error("it was executed")
		}
		if w := rt.post("/invoke", body, "Authorization", "Bearer right"); w.Code != 200 {
			t.Errorf("%d, want 200", w.Code)
		}
		rt.nextResult()
		rt.close()
	})
}

func TestA12_CallIDEchoed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		addTools(rt.server)
		rt.call("add", "c1", `{"a":1,"b":2}`, callID("x"))
		if got := rt.next().Callback.(*agentproto.ToolResult).CallID; got == nil || *got != "x" {
			t.Errorf("call_id = %v", got)
		}
		rt.call("nothing", "c2", `{}`, callID("y"))
		if got := rt.next().Callback.(*agentproto.ToolResult).CallID; got == nil || *got != "y" {
			t.Errorf("call_id = %v", got)
		}
		rt.call("add", "c3", `{"a":1,"b":2}`)
		if m := rt.next(); strings.Contains(m.body, "call_id") {
			t.Errorf("a call_id was made up: %s", m.body)
		}
		rt.close()
	})
}

func TestC08_ThousandCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		addTools(rt.server)
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() { rt.call("add", fmt.Sprint("c", i), fmt.Sprintf(`{"a":%d,"b":0}`, i)) })
		}
		wg.Wait()
		var ids []string
		for range 1000 {
			m := rt.next()
			id := m.Key().ID
			if want := "https://runtime.example/rap/v1/cb/k1/" + id; m.url != want || "c"+m.Callback.(*agentproto.ToolResult).String() != id {
				t.Fatalf("crossed: %s at %s", m.body, m.url)
			}
			ids = append(ids, id)
		}
		slices.Sort(ids)
		if n := len(slices.Compact(ids)); n != 1000 {
			t.Errorf("%d different calls answered", n)
		}
		rt.close()
	})
}
