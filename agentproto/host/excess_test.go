package host

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/callback"
)

// TestS11ResultAndDetours checks that earlier posts to the URL delay neither a result nor what
// the user has to do first (S11).
func TestS11ResultAndDetours(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Bounds = Bounds{Rates: tiny}
		tool, key, url := w.pending()
		view := `{"type":"view_update","group_id":"g","view_type":"v","content":{"a":1}}`
		if first, second := w.post(url, view), w.post(url, view); first != 200 || second != 503 {
			t.Fatalf("views were answered %d and %d", first, second)
		}
		for i := range 5 {
			body := oauthBody(key)
			if i%2 == 1 {
				body = choiceBody(key, fmt.Sprint(tool.base, "/answer", i))
			}
			if status := w.post(url, body); status != 200 {
				t.Errorf("detour %d was answered %d", i, status)
			}
		}
		if status := w.post(url, choiceBody(key, tool.base+"/answer6")); status != 503 {
			t.Errorf("a sixth detour was answered %d", status)
		}
		if status := w.post(url, view); status != 503 {
			t.Errorf("a view was answered %d", status)
		}
		if status := w.post(url, result(key, "ok")); status != 200 || w.text(key) != "ok" {
			t.Errorf("the result was answered %d", status)
		}
		if status := w.post(url, result(key, "again")); status != 503 {
			t.Errorf("another result was answered %d", status)
		}
	})
}

// TestS11Malformed checks that a malformed result resolves its call even under load, once
// (S11).
func TestS11Malformed(t *testing.T) {
	for _, body := range []string{"{", `{"type":"tool_result","group_id":"g","id":"1"}`, strings.Repeat(" ", 2<<20)} {
		inWorld(t, func(t *testing.T, w *world) {
			w.opts.Bounds = Bounds{Rates: tiny}
			_, key, url := w.pending()
			w.post(url, `{"type":"view_update","group_id":"g","view_type":"v","content":{"a":1}}`)
			if status := w.post(url, `{"type":"subscription_event","group_id":"g","tool_call_id":"1"}`); status != 503 {
				t.Errorf("a malformed event was answered %d", status)
			}
			if status := w.post(url, body); status != 400 && status != 413 {
				t.Errorf("%.50q was answered %d", body, status)
			}
			if r, err := w.rt.Await(t.Context(), key); err != nil || r.Cause != agentproto.ByMalformed {
				t.Errorf("%.50q: %+v, %v", body, r, err)
			}
			if status := w.post(url, body); status != 503 {
				t.Errorf("%.50q again was answered %d", body, status)
			}
		})
	}
}

// TestS11ExceptionIsRestored checks that an exception is available again if the program was
// too busy to use it.
func TestS11ExceptionIsRestored(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Bounds = Bounds{Rates: tiny}
		held := &holding{}
		w.deliver = held.wrap
		_, key, url := w.pending()
		w.post(url, `{"type":"view_update","group_id":"g","view_type":"v","content":{"a":1}}`)
		held.busy = true
		for range 3 {
			if status := w.post(url, result(key, "ok")); status != 503 {
				t.Errorf("while the program is busy: status %d", status)
			}
		}
		held.busy = false
		if status := w.post(url, result(key, "ok")); status != 200 || w.text(key) != "ok" {
			t.Errorf("when it is not: status %d", status)
		}
	})
}

// holding is a program that accepts nothing while it is busy.
type holding struct{ busy bool }

func (h *holding) wrap(deliver delivering) delivering {
	return func(ctx context.Context, key agentproto.CallKey, e agentproto.Event) error {
		if h.busy {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		return deliver(ctx, key, e)
	}
}

// TestS11UnsignedExceptions checks that only the tool server can use up the exceptions of its
// URL (Z01, S11).
func TestS11UnsignedExceptions(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Bounds = Bounds{Rates: tiny}
		secret := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32))
		w.opts.Secrets = map[string][]string{"http://tool.test": {secret}}
		tool, key, url := w.pending()
		for range 10 {
			if status := w.post(url, result(key, "forged")); status != 401 {
				t.Errorf("an unsigned result was answered %d", status)
			}
		}
		_ = tool
		header := http.Header{}
		body := result(key, "ok")
		w.rt.peers.All[0].Secrets.Sign(header, "m", []byte(body))
		status, _ := w.send(http.MethodPost, url, strings.NewReader(body), "Content-Type", "application/json", "webhook-id", "m",
			"webhook-timestamp", header.Get("webhook-timestamp"), "webhook-signature", header.Get("webhook-signature"))
		if status != 200 || w.text(key) != "ok" {
			t.Errorf("the signed one was answered %d", status)
		}
	})
}

// TestS11LargeFlood checks that a flood of large messages from one tool server is slowed down
// (threat 5). These must be read before they can be refused. The server's own connections
// wait, and those of others do not.
func TestS11LargeFlood(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Bounds = Bounds{Rates: tiny}
		other := w.tool("other.test", "other")
		w.opts.Toolsets = []string{other.base}
		_, key, url := w.pending()
		w.post(url, `{"type":"view_update","group_id":"g","view_type":"v","content":{"a":1}}`)
		event := eventBody(key, strings.Repeat("x", 900<<10), true, false)
		start, read := time.Now(), 0
		var wg sync.WaitGroup
		var mu sync.Mutex
		for range 20 {
			wg.Go(func() {
				for time.Since(start) < time.Second/2 {
					if status := w.post(url, event); status != 413 {
						t.Errorf("an event was answered %d", status)
					}
					mu.Lock()
					read += len(event)
					mu.Unlock()
				}
			})
		}
		k, err := w.rt.Call(t.Context(), Request{GroupID: "h", ID: "1", Operation: "other"})
		if err != nil {
			t.Fatal(err)
		}
		if status := w.post(other.callback(), result(k, "ok")); status != 200 || w.text(k) != "ok" || time.Since(start) > time.Second/4 {
			t.Errorf("another tool server's result: status %d after %v", status, time.Since(start))
		}
		wg.Wait()
		if most := callback.MaxExcess * callback.ExcessRate * 4; read > most {
			t.Errorf("%d bytes were read of a flood of half a second, want at most %d", read, most)
		}
	})
}
