package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// A trio is three runtimes that share the sessions of one partition, which one of them owns, and a tool server that leaves
// callbacks to the test.
type trio struct {
	t        *testing.T
	all      []*served
	monitors []string
	tool     *movingTool
}

func serveTrio(t *testing.T) *trio {
	x := &trio{t: t, tool: newMovingTool(t)}
	x.all = serveSharedWith(t, 3, x.tool.bases[:1], func(int) []string {
		x.monitors = append(x.monitors, freeAddress(t))
		return []string{"--partitions", "1", "--monitor", x.monitors[len(x.monitors)-1]}
	})
	return x
}

// owner waits until one of the three runs the sessions, and returns its index.
func (x *trio) owner(ctx context.Context) int {
	x.t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		for i, at := range x.monitors {
			if r, err := http.Get("http://" + at + "/metrics"); err == nil {
				text, _ := io.ReadAll(r.Body)
				r.Body.Close()
				for line := range strings.Lines(string(text)) {
					if strings.HasPrefix(line, "millrace_durable_partition_state{") && strings.Contains(line, `state="running"`) && strings.HasSuffix(line, "} 1\n") {
						return i
					}
				}
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			x.t.Fatal("nobody owns the sessions")
		}
	}
}

// call makes a call at one of the three runtimes and returns its callback URL at each of them.
func (x *trio) call(ctx context.Context, at int, key agentproto.CallKey) (callbacks []string) {
	x.t.Helper()
	x.all[at].request(ctx, "POST", "/calls", fmt.Sprintf(`{"group_id":%q,"id":%q,"operation":"late"}`, key.GroupID, key.ID), http.StatusAccepted)
	for x.tool.isWaiting(key) {
		x.all[at].request(ctx, "GET", fmt.Sprintf("/calls/%s/%s?wait=60ms", key.GroupID, key.ID), "", http.StatusNoContent)
	}
	x.tool.mu.Lock()
	u, err := url.Parse(x.tool.invoked[key])
	x.tool.mu.Unlock()
	if err != nil {
		x.t.Fatal(err)
	}
	for _, s := range x.all {
		for i, arg := range s.args {
			if arg == "--listen" {
				there := *u
				there.Host = s.args[i+1]
				callbacks = append(callbacks, there.String())
			}
		}
	}
	return callbacks
}

// post posts a callback and returns the status of the answer.
func post(ctx context.Context, to, body, id string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	if id != "" {
		r.Header.Set("webhook-id", id)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

// TestN49_OwnerKilled posts a result to a runtime that does not own its session, and kills the owner right after the 200, while a
// request for the result waits at the third runtime. The test fails if the result was acknowledged before it was safe without the
// owner, or if the request waits for the dead process.
func TestN49_OwnerKilled(t *testing.T) {
	t.Parallel()
	x := serveTrio(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, s := range x.all {
		s.request(ctx, "GET", "/calls/none/none", "", http.StatusNotFound)
	}
	for round := range 2 {
		owner := x.owner(ctx)
		taker, poller := (owner+1)%3, (owner+2)%3
		key := agentproto.CallKey{GroupID: "t", ID: fmt.Sprint("c", round)}
		callbacks := x.call(ctx, taker, key)
		path := fmt.Sprintf("/calls/%s/%s?wait=40s", key.GroupID, key.ID)
		polled := make(chan string, 1)
		go func() {
			_, text := x.all[poller].request(ctx, "GET", path, "", http.StatusOK)
			polled <- string(text)
		}()
		body := fmt.Sprintf(`{"type":"tool_result","group_id":"t","id":%q,"text":"result %d"}`, key.ID, round)
		status, err := post(ctx, callbacks[taker], body, "")
		x.all[owner].kill()
		if err != nil || status != http.StatusOK {
			t.Fatalf("the result is answered %d, %v", status, err)
		}
		var results []apiResult
		texts := []string{<-polled}
		_, text := x.all[taker].request(ctx, "GET", path, "", http.StatusOK)
		texts = append(texts, string(text))
		if now := x.owner(ctx); now == owner {
			t.Errorf("%d owns the sessions and was killed", now)
		}
		x.all[owner].start()
		_, text = x.all[owner].request(ctx, "GET", path, "", http.StatusOK)
		for _, text := range append(texts, string(text)) {
			var r apiResult
			if err := json.Unmarshal([]byte(text), &r); err != nil || r.Cause != "tool_result" || r.Text != fmt.Sprint("result ", round) {
				t.Errorf("the call is %s, %v", text, err)
			}
			results = append(results, r)
		}
		if status, err := post(ctx, callbacks[poller], strings.Replace(body, "result ", "second ", 1), ""); status != http.StatusOK || err != nil {
			t.Errorf("a second result is answered %d, %v", status, err)
		}
		if _, text := x.all[poller].request(ctx, "GET", path, "", http.StatusOK); !strings.Contains(string(text), results[0].Text) {
			t.Errorf("a second result has changed the call: %s", text)
		}
	}
}

// TestN50_EventsAtThree posts each event of a subscription to three runtimes at once. The test fails if an event is delivered
// twice because two processes took it, or is lost because each left it to another.
func TestN50_EventsAtThree(t *testing.T) {
	t.Parallel()
	const events = 300
	x := serveTrio(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	key := agentproto.CallKey{GroupID: "t", ID: "c"}
	callbacks := x.call(ctx, 0, key)
	if status, err := post(ctx, callbacks[1], `{"type":"tool_result","group_id":"t","id":"c","text":"begun","subscription":true}`, ""); status != http.StatusOK || err != nil {
		t.Fatalf("the result is answered %d, %v", status, err)
	}
	x.all[2].request(ctx, "GET", "/calls/t/c?wait=20s", "", http.StatusOK)
	take := func(to string, n int, final bool) {
		body := fmt.Sprintf(`{"type":"subscription_event","group_id":"t","tool_call_id":"c","text":"event %d","associative":true,"final":%t}`, n, final)
		again := time.NewTicker(50 * time.Millisecond)
		defer again.Stop()
		for {
			status, err := post(ctx, to, body, fmt.Sprint("event-", n))
			switch {
			case err == nil && status == http.StatusOK:
				return
			case ctx.Err() != nil || err == nil && status != http.StatusServiceUnavailable:
				t.Errorf("event %d is answered %d, %v", n, status, err)
				return
			}
			<-again.C
		}
	}
	var posting sync.WaitGroup
	for _, to := range callbacks {
		for lane := range 4 {
			posting.Go(func() {
				for n := lane; n < events; n += 4 {
					take(to, n, false)
				}
			})
		}
	}
	posting.Wait()
	take(callbacks[0], events, true)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for { // each event was delivered, or dropped as a duplicate
		var came, dropped uint64
		for _, s := range x.all {
			_, text := s.request(ctx, "GET", "/stats", "", http.StatusOK)
			var st statsBody
			if err := json.Unmarshal(text, &st); err != nil {
				t.Fatal(err)
			}
			came, dropped = came+st.Events, dropped+st.Duplicates
		}
		if came >= 3*events+1 && came-dropped == events+1 {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			t.Fatalf("%d events came and %d were dropped, want %d to be told", came, dropped, events+1)
		}
	}
}
