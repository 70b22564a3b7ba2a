package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/toolserver"
)

var (
	mcpTasks     = flag.Int("mcp.tasks", 60, "tasks of TestMCPTasksKilled")
	mcpTaskKills = flag.Int("mcp.taskkills", 3, "kill -9 of a runtime and its front by TestMCPTasksKilled")
	mcpAnswers   = flag.Int("mcp.answers", 3, "kill -9 after an answer was acknowledged by TestMT08_AnswerIsKept")
)

// counting serves a tool that takes up to a second and counts its runs with each number.
func counting(t *testing.T) (url string, runs func(n int) int) {
	var mu sync.Mutex
	counts := map[int]int{}
	var handler http.Handler
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(web.Close)
	s := toolserver.New(toolserver.Options{Name: "counting", PublicURL: web.URL})
	handler = s
	toolserver.AddWithOptions(s, "count", "Counts.", toolserver.ToolOptions{RunOnce: true}, func(ctx context.Context, in struct {
		N int `json:"n"`
	}) (string, error) {
		mu.Lock()
		counts[in.N]++
		mu.Unlock()
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(time.Duration(in.N%10) * 100 * time.Millisecond):
			return strconv.Itoa(in.N), nil
		}
	})
	return web.URL, func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return counts[n]
	}
}

// until repeats a request until it gets a wanted answer. The server may be down or busy meanwhile.
func until(ctx context.Context, with func() speaker, method string, params map[string]any, wanted func(*mcpAnswer) bool) (*mcpAnswer, error) {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	var last string
	for {
		a, err := with().say(ctx, int(requests.Add(1)), method, params)
		switch {
		case err == nil && wanted(a):
			return a, nil
		case err != nil:
			last = err.Error()
		default:
			last = fmt.Sprintf("%+v %+v", a.Result, a.Error)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w; the last answer to %s was %s", ctx.Err(), method, last)
		case <-again.C:
		}
	}
}

var requests atomic.Int64

// A locked speaker serves one request at a time.
type locked struct {
	mu sync.Mutex
	to speaker
}

func (l *locked) say(ctx context.Context, id int, method string, params map[string]any) (*mcpAnswer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.say(ctx, id, method, params)
}

// TestMCPTasksKilled checks that no task is lost or run twice, whatever is killed when. A client that lost the answer to
// tools/call repeats the call with its key, and gets the same task (MT05, MT06).
func TestMCPTasksKilled(t *testing.T) {
	t.Parallel()
	url, runs := counting(t)
	s := serveRuntime(t, t.TempDir(), []string{url})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	s.request(ctx, "GET", "/stats", "", http.StatusOK)
	var front atomic.Pointer[locked]
	var process *overStdio
	begin := func() {
		process = startMCP(t, s)
		front.Store(&locked{to: process})
	}
	begin()
	speakers := []func() speaker{
		func() speaker { return overHTTP{s} }, func() speaker { return front.Load() }, func() speaker { return overHTTP{s} },
	}
	ids := make([]string, *mcpTasks)
	create := func(ctx context.Context, n int) error {
		a, err := until(ctx, speakers[n%3], "tools/call", map[string]any{
			"name": "count", "arguments": map[string]any{"n": n}, "key": fmt.Sprint("key", n),
		}, func(a *mcpAnswer) bool {
			return a.Error == nil && (a.Result.TaskID != "" || a.Result.ResultType == "complete")
		})
		if err == nil {
			ids[n] = a.Result.TaskID // empty if the result came at once
			if a.Result.ResultType == "complete" && !strings.Contains(string(a.Result.Content), strconv.Quote(strconv.Itoa(n))) {
				err = fmt.Errorf("task %d: %s", n, a.Result.Content)
			}
		}
		return err
	}
	// In each round several clients make tasks concurrently, while both processes are killed at any moment.
	each := (*mcpTasks + *mcpTaskKills - 1) / *mcpTaskKills
	for first := 0; first < *mcpTasks; first += each {
		next := make(chan int)
		var makers sync.WaitGroup
		for range 6 {
			makers.Go(func() {
				for n := range next {
					if err := create(ctx, n); err != nil {
						t.Errorf("task %d is not made: %v", n, err)
					}
				}
			})
		}
		killAt := first + rand.IntN(min(each, *mcpTasks-first))
		for n := first; n < min(first+each, *mcpTasks); n++ {
			next <- n
			if n == killAt {
				s.kill()
				process.kill()
				s.start()
				begin()
			}
		}
		close(next)
		makers.Wait()
		if t.Failed() {
			return
		}
	}
	asked := 0
	for n, id := range ids {
		if id == "" {
			continue
		}
		asked++
		a, err := until(ctx, speakers[n%3], "tasks/get", map[string]any{"taskId": id}, func(a *mcpAnswer) bool {
			return a.Error != nil && a.Error.Code == -32602 || a.Result.Status != "" && a.Result.Status != "working"
		})
		if err != nil {
			t.Fatalf("task %d is lost: %v", n, err)
		}
		if a.Result.Status != "completed" || !strings.Contains(string(a.Result.Result), strconv.Quote(strconv.Itoa(n))) {
			t.Errorf("task %d is %s with %s, error %+v", n, a.Result.Status, a.Result.Result, a.Error)
		}
	}
	for n := range ids {
		if got := runs(n); got != 1 {
			t.Errorf("task %d was run %d times", n, got)
		}
	}
	t.Logf("%d kills of both, %d calls, %d of them tasks: each has its result, and was run once", *mcpTaskKills, *mcpTasks, asked)
	if asked == 0 {
		t.Error("no call was a task")
	}
}

// TestMT08_AnswerIsKept checks that a kill right after an acknowledged answer does not lose it, and that the user is not asked
// again.
func TestMT08_AnswerIsKept(t *testing.T) {
	t.Parallel()
	_, tools := startTools(t, "feed")
	s := serveRuntime(t, t.TempDir(), tools)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.request(ctx, "GET", "/stats", "", http.StatusOK)
	front := startMCP(t, s)
	for n := range *mcpAnswers {
		with := func() speaker {
			if n%2 == 0 {
				return overHTTP{s}
			}
			return front
		}
		made, err := until(ctx, with, "tools/call", map[string]any{"name": "delete", "arguments": map[string]any{"name": "x"}}, func(a *mcpAnswer) bool { return a.Result.TaskID != "" })
		if err != nil {
			t.Fatal(err)
		}
		task := map[string]any{"taskId": made.Result.TaskID}
		if _, err := until(ctx, with, "tasks/get", task, func(a *mcpAnswer) bool { return a.Result.Status == "input_required" }); err != nil {
			t.Fatal(err)
		}
		// The answer differs from that of a dismissal.
		yes := json.RawMessage(`{"p1":{"action":"accept","content":{"choice":"0"}}}`)
		if a, err := with().say(ctx, int(requests.Add(1)), "tasks/update", map[string]any{"taskId": made.Result.TaskID, "inputResponses": yes}); err != nil || a.Error != nil {
			t.Fatalf("tasks/update: %v, %+v", err, a)
		}
		s.kill()
		front.kill()
		s.start()
		front = startMCP(t, s)
		a, err := until(ctx, with, "tasks/get", task, func(a *mcpAnswer) bool {
			return a.Error != nil || a.Result.Status != "" && a.Result.Status != "working"
		})
		if err != nil {
			t.Fatal(err)
		}
		if a.Result.Status != "completed" || !strings.Contains(string(a.Result.Result), `"x deleted"`) {
			t.Errorf("after the answer the task is %s with %s and asks %v", a.Result.Status, a.Result.Result, a.Result.InputRequests)
		}
	}
}

// TestMT23_RoundsAfterKill asks a client without tasks in a round and kills the runtime and the front. The second round completes
// the same call.
func TestMT23_RoundsAfterKill(t *testing.T) {
	t.Parallel()
	_, tools := startTools(t, "feed")
	s := serveRuntime(t, t.TempDir(), tools)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.request(ctx, "GET", "/stats", "", http.StatusOK)
	front := startMCP(t, s)
	for n := range 2 {
		with := func() speaker {
			if n == 0 {
				return overHTTP{s}
			}
			return front
		}
		call := map[string]any{"name": "delete", "arguments": map[string]any{"name": "x"}, "held": true}
		first, err := until(ctx, with, "tools/call", call, func(a *mcpAnswer) bool { return a.Result.RequestState != "" })
		if err != nil {
			t.Fatal(err)
		}
		if first.Result.InputRequests["p1"] == nil || first.Result.TaskID != "" {
			t.Fatalf("the first round is %+v", first.Result)
		}
		s.kill()
		front.kill()
		s.start()
		front = startMCP(t, s)
		call["requestState"] = first.Result.RequestState
		call["inputResponses"] = json.RawMessage(`{"p1":{"action":"accept","content":{"choice":"0"}}}`)
		second, err := until(ctx, with, "tools/call", call, func(a *mcpAnswer) bool { return a.Result.Content != nil })
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(second.Result.Content), `"x deleted"`) {
			t.Errorf("the second round is %+v", second.Result)
		}
		_, text := s.request(ctx, "GET", "/calls?limit=500", "", http.StatusOK)
		var made struct{ Calls []struct{ ID string } }
		if err := json.Unmarshal(text, &made); err != nil || len(made.Calls) != n+1 {
			t.Errorf("after %d calls there are %s, %v", n+1, text, err)
		}
	}
}
