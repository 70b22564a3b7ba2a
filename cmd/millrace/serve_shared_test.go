package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/millrace/millrace/agentproto"
)

// serveShared starts n runtimes that share their calls over a NATS server.
func serveShared(t testing.TB, n int, tools []string) (all []*served) {
	return serveSharedWith(t, n, tools, func(int) []string { return nil })
}

// serveSharedWith is serveShared with additional flags for each runtime.
func serveSharedWith(t testing.TB, n int, tools []string, more func(i int) []string) (all []*served) {
	nats, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(),
		SyncAlways: true, NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	nats.Start()
	t.Cleanup(nats.Shutdown)
	if !nats.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server did not start")
	}
	state := t.TempDir() // contains only the key
	for i := range n {
		flags := append([]string{"--nats", nats.ClientURL(), "--replicas", "1", "--assume-durable"}, more(i)...)
		all = append(all, serveRuntime(t, state, tools, flags...))
	}
	return all
}

// TestServeShared has two runtimes share their calls over a NATS server. A call made at one is
// read at the other. Whichever is killed, the other one continues, although one of them owned
// the calls.
func TestServeShared(t *testing.T) {
	t.Parallel()
	_, tools := startTool(t)
	both := serveShared(t, 2, tools)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i := range 10 {
		made, read := both[i%2], both[(i+1)%2]
		if first, second := made.makeCall(ctx, i), read.readResult(ctx, i); first != second {
			t.Errorf("call %d: %q where it was made, %q elsewhere", i, first, second)
		}
	}
	for i, killed := range both {
		slow := fmt.Sprintf(`{"group_id":"t%d","id":"c%d","operation":"sleep","arguments":{"ms":1500}}`, i, 30*(i+1)+i)
		both[1-i].request(ctx, "POST", "/calls", slow, http.StatusAccepted)
		killed.kill()
		both[1-i].readSlow(ctx, fmt.Sprintf("/calls/t%d/c%d", i, 30*(i+1)+i))
		killed.start()
		killed.request(ctx, "GET", "/calls/none/none", "", http.StatusNotFound)
	}
}

// TestServeSharedHistory reads a long history at two runtimes, of which one does not run the thread and has each message from the
// other. It fails if an answer ends early, as if the rest did not exist.
func TestServeSharedHistory(t *testing.T) {
	t.Parallel()
	_, tools := startTool(t)
	script := "script:" + writeConfig(t, filepath.Join(t.TempDir(), "script.json"), `[{"text":"Noted.","times":1000}]`)
	both := serveSharedWith(t, 2, tools, func(int) []string { return []string{"--model", script} })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	both[0].request(ctx, "POST", "/sessions", `{"id":"s"}`, http.StatusCreated)
	const says = 100
	for n := range says {
		both[0].request(ctx, "POST", "/threads/s/messages", fmt.Sprintf(`{"text":"go on","key":"%d"}`, n), http.StatusAccepted)
	}
	for i, s := range both {
		if all := s.history(ctx, "s"); len(all) <= says || all[len(all)-1].N+1 != len(all) {
			t.Errorf("runtime %d answers with %d messages, although the user has said %d", i, len(all), says)
		}
	}
}

// TestServeSharedState asks both of two runtimes for the state of calls, of which each runs some. It fails if one of them never
// learns that a call of the other is over.
func TestServeSharedState(t *testing.T) {
	t.Parallel()
	_, tools := startTools(t, "slow")
	both := serveShared(t, 2, tools)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const calls = 8
	for i := range calls {
		both[i%2].request(ctx, "POST", "/calls", fmt.Sprintf(`{"group_id":"t%d","id":"c","operation":"sleep","arguments":{"ms":300}}`, i), http.StatusAccepted)
	}
	for i := range calls {
		for j, s := range both {
			_, text := s.request(ctx, "GET", fmt.Sprintf("/calls/t%d/c/state?after=1&wait=40s", i), "", http.StatusOK)
			var st stateBody
			if err := json.Unmarshal(text, &st); err != nil || st.State != "completed" || st.Result == nil || st.Prompt != nil {
				t.Errorf("runtime %d learns that call %d is %s, %v", j, i, text, err)
			}
			for st = (stateBody{}); st.State != "completed" && ctx.Err() == nil; { // one that does not run the call has not always an answer in time
				_, text = s.request(ctx, "GET", fmt.Sprintf("/calls/t%d/c/state", i), "", http.StatusOK)
				if err := json.Unmarshal(text, &st); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if ctx.Err() != nil {
		t.Error("a call that is over is shown as pending")
	}
}

// TestServeSharedMoved moves a session from two runtimes that share it to a third one. It fails if the one that did not run it never
// learns that it is gone, and says that its call is pending.
func TestServeSharedMoved(t *testing.T) {
	t.Parallel()
	tool := newMovingTool(t)
	key := filepath.Join(t.TempDir(), "shared.key")
	both := serveSharedWith(t, 2, tool.bases[:1], func(int) []string { return []string{"--migration-key", key} })
	other := serveRuntime(t, t.TempDir(), tool.bases[1:], "--migration-key", key)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	call := agentproto.CallKey{GroupID: "t", ID: "c"}
	both[0].request(ctx, "POST", "/calls", `{"group_id":"t","id":"c","operation":"late"}`, http.StatusAccepted)
	for tool.isWaiting(call) && ctx.Err() == nil {
		both[0].request(ctx, "GET", "/calls/t/c?wait=60ms", "", http.StatusNoContent)
	}
	both[0].request(ctx, "POST", "/sessions/t/migrate", fmt.Sprintf(`{"to":"http://%s"}`, other.listen()), http.StatusNoContent)
	other.request(ctx, "GET", "/calls/t/c", "", http.StatusNoContent)
	for _, s := range both {
		for _, path := range []string{"/calls/t/c", "/calls/t/c?wait=100ms", "/calls/t/c/state"} {
			s.request(ctx, "GET", path, "", http.StatusGone)
		}
	}
}

// TestServeSharedEvents asks both of two runtimes for the events of a call, which only one of them has. It fails if the other one
// says that there is no such call.
func TestServeSharedEvents(t *testing.T) {
	t.Parallel()
	_, tools := startTools(t, "feed", "clock")
	both := serveShared(t, 2, tools)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	both[0].request(ctx, "POST", "/calls", `{"group_id":"t","id":"c","operation":"tick","arguments":{"ms":50}}`, http.StatusAccepted)
	both[0].request(ctx, "POST", "/calls", `{"group_id":"t","id":"plain","operation":"now"}`, http.StatusAccepted)
	var has int
	for _, s := range both {
		s.request(ctx, "GET", "/calls/t/c?wait=40s", "", http.StatusOK)
		s.request(ctx, "GET", "/calls/t/plain?wait=40s", "", http.StatusOK)
		s.request(ctx, "GET", "/calls/t/none/events", "", http.StatusNotFound)
		if status, _ := s.request(ctx, "GET", "/calls/t/c/events", "", http.StatusOK, http.StatusServiceUnavailable); status == http.StatusOK {
			has++
			s.request(ctx, "GET", "/calls/t/plain/events", "", http.StatusNotFound)
		}
	}
	if has != 1 {
		t.Errorf("%d of 2 runtimes have the events", has)
	}
}

// TestServeSharedAnswer answers a question at both of two runtimes, of which only one knows that it is asked. It fails if the other
// one accepts the answer, which has no effect, or says that nothing is asked.
func TestServeSharedAnswer(t *testing.T) {
	t.Parallel()
	_, tools := startTools(t, "feed")
	both := serveShared(t, 2, tools)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	both[0].request(ctx, "POST", "/calls", `{"group_id":"t","id":"c","operation":"delete","arguments":{"name":"x"}}`, http.StatusAccepted)
	var runs *served
	for i := 0; runs == nil && ctx.Err() == nil; i++ {
		_, text := both[i%2].request(ctx, "GET", "/calls/t/c/state?after=1&wait=100ms", "", http.StatusOK)
		var st stateBody
		if err := json.Unmarshal(text, &st); err != nil {
			t.Fatal(err)
		}
		if st.Prompt != nil {
			runs = both[i%2]
		}
	}
	if runs == nil {
		t.Fatal("nobody is asked")
	}
	for _, s := range both {
		if s != runs {
			s.request(ctx, "POST", "/calls/t/c/answers", `{"prompt":1,"selected":0}`, http.StatusServiceUnavailable)
			s.request(ctx, "POST", "/threads/t/answers", `{"id":"c","selected":0}`, http.StatusServiceUnavailable)
			s.request(ctx, "POST", "/threads/t/answers", `{"id":"c","selected":null}`, http.StatusServiceUnavailable)
			s.request(ctx, "POST", "/threads/t/answers", `{"id":"none","selected":0}`, http.StatusNotFound)
		}
	}
	runs.request(ctx, "POST", "/calls/t/c/answers", `{"prompt":1,"selected":0}`, http.StatusNoContent)
	for _, s := range both {
		if _, text := s.request(ctx, "GET", "/calls/t/c?wait=20s", "", http.StatusOK); !strings.Contains(string(text), "x deleted") {
			t.Errorf("the result is %s", text)
		}
		s.request(ctx, "POST", "/calls/t/c/answers", `{"prompt":1,"selected":0}`, http.StatusNoContent)
		s.request(ctx, "POST", "/threads/t/answers", `{"id":"c","selected":0}`, http.StatusNotFound)
	}
}

func (s *served) readSlow(ctx context.Context, path string) {
	_, text := s.request(ctx, "GET", path+"?wait=20s", "", http.StatusOK)
	var r apiResult
	if err := json.Unmarshal(text, &r); err != nil || r.Cause != "tool_result" || r.Text != "slept for 1500 ms" {
		s.t.Errorf("%s: %+v, %v", path, r, err)
	}
}

// TestServeSharedKilled is TestServeKilled with three runtimes that share their calls: a call is
// made at any of them, its callback reaches any, and its result is the same at all three.
// -serve.kills=60 kills for a minute.
func TestServeSharedKilled(t *testing.T) {
	t.Parallel()
	_, tools := startTool(t)
	callWhileKilled(t, serveShared(t, 3, tools))
}

// BenchmarkServeShared makes calls over HTTP, each at one of several runtimes that share them,
// and waits for the results. The tool server, the runtimes and the NATS server run on one machine.
func BenchmarkServeShared(b *testing.B) {
	for _, n := range []int{1, 2, 3} {
		b.Run(fmt.Sprintf("processes=%d", n), func(b *testing.B) {
			_, tools := startTool(b)
			all := serveShared(b, n, tools)
			ctx := b.Context()
			for _, s := range all {
				s.request(ctx, "GET", "/calls/none/none", "", http.StatusNotFound)
			}
			var made atomic.Int64
			var callers sync.WaitGroup
			b.ResetTimer()
			for range 32 {
				callers.Go(func() {
					for {
						i := int(made.Add(1)) - 1
						if i >= b.N {
							return
						}
						all[i%n].makeCall(ctx, 3*i+1) // it does not sleep
					}
				})
			}
			callers.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}
