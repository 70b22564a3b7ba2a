package host

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/discovery"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
)

// TestE01Status checks what happens after each answer to a status request (E01). Only a
// clear no, a refusal and an invalid answer end the call.
func TestE01Status(t *testing.T) {
	const lost, kept = true, false
	tests := []struct {
		name   string
		status int
		body   string
		want   bool
	}{
		{"alive", 200, `{"alive":true}`, kept},
		{"alive, with more", 200, `{"alive":true,"x":[1]}`, kept},
		{"not alive", 200, `{"alive":false}`, lost},
		{"404", 404, `{"alive":true}`, lost},
		{"400", 400, ``, lost},
		{"empty", 200, ``, lost},
		{"not JSON", 200, `<html>`, lost},
		{"no member", 200, `{}`, lost},
		{"null", 200, `{"alive":null}`, lost},
		{"not a boolean", 200, `{"alive":"yes"}`, lost},
		{"twice", 200, `{"alive":true,"alive":true}`, lost},
		{"1 MB", 200, `{"alive":true}` + strings.Repeat(" ", 1<<20), lost},
		{"204", 204, ``, lost},
		{"429", 429, ``, kept},
		{"500", 500, `{"alive":false}`, kept},
		{"503", 503, ``, kept},
		{"redirect", 307, ``, kept},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.opts.AskStatus = true
				tool := w.tool("tool.test")
				tool.notice = func(rw http.ResponseWriter, r *http.Request) {
					rw.Header().Set("Location", "http://tool.test/elsewhere")
					rw.WriteHeader(tt.status)
					if tt.status != 204 {
						io.WriteString(rw, tt.body)
					}
				}
				w.start(tool.base)
				key := w.call("g", "1")
				url := tool.callback()
				w.pass(5*time.Minute + time.Second)
				want := `/tool_call_status {"thread_id":"g","tool_call_id":"1"}`
				if got := tool.noticed(); len(got) != 1 || got[0] != want {
					t.Errorf("asked %q, want %q once", got, want)
				}
				if status := w.post(url, result(key, "ok")); status != 200 {
					t.Errorf("status %d", status)
				}
				got := w.text(key)
				if isLost := strings.HasPrefix(got, "Error: the tool server lost the call: it "); isLost != tt.want || !isLost && got != "ok" {
					t.Errorf("result %q, want it lost: %v", got, tt.want)
				}
				w.pass(time.Hour)
				if got := tool.noticed(); len(got) != 1 {
					t.Errorf("asked %q, want nothing after the call was over", got)
				}
			})
		})
	}
}

// TestE01Unreachable checks that calls of an unreachable or hanging server stay pending
// (E01). The server is asked again, about a few calls at a time. Without the option no
// server is asked.
func TestE01Unreachable(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.AskStatus = true
		tool := w.tool("tool.test")
		release := make(chan struct{})
		defer close(release)
		tool.notice = func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		w.start(tool.base)
		var keys []agentproto.CallKey
		for i := range 3 * peer.MaxNotices {
			keys = append(keys, w.call("g", fmt.Sprint(i)))
		}
		synctest.Wait()
		w.pass(14 * time.Minute)
		if n := len(tool.noticed()); n < 2*peer.MaxNotices || n > 6*peer.MaxNotices {
			t.Errorf("asked %d times, want it twice, for some of %d calls", n, len(keys))
		}
		if st := w.stats(); st.Failures != 0 {
			t.Errorf("stats %+v", st.Counts)
		}
		for _, key := range keys {
			w.post(tool.callbackOf(key), result(key, "ok"))
			if got := w.text(key); got != "ok" {
				t.Fatalf("result %q", got)
			}
		}
	})
	inWorld(t, func(t *testing.T, w *world) {
		tool, _, _ := w.pending()
		w.pass(14 * time.Minute)
		if got := tool.noticed(); len(got) != 0 {
			t.Errorf("asked %q, want nothing", got)
		}
	})
}

// TestE01Subscriptions checks that a subscription that the tool server has lost ends with
// an event that says so (E01). The server is not asked about one that is over.
func TestE01Subscriptions(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.AskStatus = true
		tool := w.tool("tool.test")
		tool.notice = func(rw http.ResponseWriter, r *http.Request) { io.WriteString(rw, `{"alive":false}`) }
		w.start(tool.base)
		lost, over := w.call("g", "lost"), w.call("g", "over")
		w.post(tool.callbackOf(lost), subscribe(lost))
		w.post(tool.callbackOf(over), subscribe(over))
		w.post(tool.callbackOf(over), event(over, "last", true))
		w.pass(time.Hour)
		if got, want := strings.Join(tool.noticed(), "\n"), `/tool_call_status {"thread_id":"g","tool_call_id":"lost"}`; got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
		if n := w.rt.subscribed.Threads(); n != 0 {
			t.Errorf("subscriptions of %d threads are open still", n)
		}
	})
}

// TestE01Restart checks that after a restart the server is asked at once about calls that
// it had acknowledged (E01). A call that was not acknowledged is posted instead.
func TestE01Restart(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]int{}
	refuse := true // before the restart
	posted := make(chan *agentproto.Invocation, 16)
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		switch r.URL.Path {
		case discovery.Path:
			fmt.Fprintf(rw, `{"name":"r","endpoint":"%s/invoke","tools":[{"name":"keep","description":"d","inputSchema":{}}]}`, server.URL)
		case "/invoke":
			inv, err := agentproto.DecodeInvocation(body, agentproto.Limits{})
			if err != nil {
				t.Error(err)
				return
			}
			if posted <- inv; inv.ID == "unposted" && refuse {
				rw.WriteHeader(503)
			}
		case "/tool_call_status":
			question, err := agentproto.DecodeCancelToolCall(body, agentproto.Limits{})
			if err != nil {
				t.Error(err)
				return
			}
			asked[question.ToolCallID]++
			fmt.Fprintf(rw, `{"alive":%v}`, refuse || question.ToolCallID == "alive")
		}
	}))
	defer server.Close()
	opts := kept(t, server.URL)
	opts.AskStatus = true
	opts.Timeouts.Dispatch = time.Hour
	opts.Timeouts.Retry = []time.Duration{10 * time.Minute}
	opts.Timeouts.Status = 20 * time.Millisecond
	rt, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]agentproto.CallKey{}
	urls := map[string]string{}
	for _, id := range []string{"alive", "lost", "unposted"} {
		if keys[id], err = rt.Call(t.Context(), Request{GroupID: "g", ID: id, Operation: "keep", Lifetime: time.Hour}); err != nil {
			t.Fatal(err)
		}
		inv := <-posted
		urls[inv.ID] = inv.CallbackURL
	}
	// A status is requested only after the acknowledgement has been stored.
	within(t, "what was acknowledged is kept", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return asked["alive"] > 0 && asked["lost"] > 0
	})
	stopAtOnce(t, rt) // during the pause before the next attempt
	mu.Lock()
	if asked["unposted"] != 0 {
		t.Errorf("asked %v before the restart", asked)
	}
	refuse, asked = false, map[string]int{}
	mu.Unlock()

	opts.Timeouts.Status = 0
	if rt, err = Start(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	defer stopAtOnce(t, rt)
	if inv := <-posted; inv.ID != "unposted" {
		t.Errorf("%s was posted again", inv.ID)
	}
	if r, err := rt.Await(t.Context(), keys["lost"]); err != nil || r.Cause != agentproto.ByLoss {
		t.Errorf("lost: %+v, %v", r, err)
	}
	for _, id := range []string{"alive", "unposted"} {
		postUntilTaken(t, urls[id], result(keys[id], "ok"))
		if r, err := rt.Await(context.Background(), keys[id]); err != nil || r.Result.String() != "ok" {
			t.Errorf("%s: %+v, %v", id, r, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if asked["lost"] == 0 || asked["unposted"] != 0 {
		t.Errorf("asked %v", asked)
	}
}
