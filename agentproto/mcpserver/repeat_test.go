package mcpserver_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/mcpserver"
)

const withKey = `{"_meta":{"io.millrace/idempotency-key":"k"},"name":"one","arguments":{}}`

// TestRepeatedAfterBrokenConnection breaks the connection of a held request that has an idempotency key. A repetition, sent
// before or after that, receives the result of the call, which is made once and not cancelled.
func TestRepeatedAfterBrokenConnection(t *testing.T) {
	for _, repeatsFirst := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, mcpserver.Options{})
			w.caps = noTasks
			ctx, breakOff := context.WithCancel(t.Context())
			broken := make(chan struct{})
			go func() {
				defer close(broken)
				w.say(ctx, "tools/call", withKey)
			}()
			synctest.Wait()
			repeated := make(chan reply)
			repeat := func() { repeated <- w.say(t.Context(), "tools/call", withKey) }
			if repeatsFirst {
				go repeat()
				synctest.Wait()
			}
			breakOff()
			<-broken
			synctest.Wait()
			if !repeatsFirst {
				go repeat()
				synctest.Wait()
			}
			w.calls.with(func(d *host.Description) {
				if d.Resolution == nil {
					resolve(d, agentproto.ByResult, "done")
				}
			})
			if got := <-repeated; !strings.Contains(got.text, `"done"`) || len(w.calls.made) != 1 || w.calls.canceled != 0 {
				t.Errorf("repeated first %t: %d calls, %d cancelled: %s", repeatsFirst, len(w.calls.made), w.calls.canceled, got.text)
			}
		})
	}
}

// TestBrokenRoundOfRepeatable checks that a call with an idempotency key continues if the connection of a later round breaks,
// also when that round does not have the key.
func TestBrokenRoundOfRepeatable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpserver.Options{})
		w.caps = noTasks
		w.calls.onCall = func(d *host.Description) { ask(d, 1) }
		asked := w.say(t.Context(), "tools/call", withKey)
		state, _ := asked.Result["requestState"].(string)
		if state == "" {
			t.Fatalf("no round: %s", asked.text)
		}
		w.calls.with(func(d *host.Description) { d.Prompt, d.State = nil, agentproto.Pending; d.Version++ })
		ctx, breakOff := context.WithCancel(t.Context())
		broken := make(chan struct{})
		go func() {
			defer close(broken)
			w.say(ctx, "tools/call", `{"name":"one","arguments":{},"requestState":"`+state+`"}`)
		}()
		synctest.Wait()
		breakOff()
		<-broken
		synctest.Wait()
		if w.calls.canceled != 0 {
			t.Errorf("%d calls are cancelled", w.calls.canceled)
		}
	})
}

// TestRepeatableCancelled checks that notifications/cancelled cancels a call that has an idempotency key, over HTTP and over a
// pair of streams, unless a repetition waits for its result. A pair of streams that ends does not cancel it.
func TestRepeatableCancelled(t *testing.T) {
	const cancelFirst = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`
	const cancelSecond = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`
	const begin = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}`
	const begun = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	const first = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":` + withKey + `}`
	const second = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":` + withKey + `}`
	for name, test := range map[string]struct {
		said []string
		want int
	}{
		"cancelled":               {[]string{first, cancelFirst}, 1},
		"cancelled, but repeated": {[]string{first, second, cancelFirst}, 0},
		"both cancelled":          {[]string{first, second, cancelFirst, cancelSecond}, 1},
		"connection ended":        {[]string{first}, 0},
	} {
		t.Run(name+", streams", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, mcpserver.Options{})
				in, toServer := io.Pipe()
				out, toClient := io.Pipe()
				ended := make(chan error, 1)
				go func() { ended <- w.server.ServeStdio(t.Context(), mcpserver.Owner{Name: "alice"}, in, toClient) }()
				go io.Copy(io.Discard, out)
				for _, line := range append([]string{begin, begun}, test.said...) {
					if _, err := io.WriteString(toServer, line+"\n"); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				toServer.Close()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if w.calls.canceled != test.want || len(w.calls.made) != 1 {
					t.Errorf("%d calls, %d cancelled, want %d", len(w.calls.made), w.calls.canceled, test.want)
				}
			})
		})
		t.Run(name+", HTTP", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, mcpserver.Options{})
				session := w.post(t.Context(), http.MethodPost, "", begin).Header().Get("Mcp-Session-Id")
				w.post(t.Context(), http.MethodPost, session, begun)
				ctx, breakOff := context.WithCancel(t.Context())
				for _, message := range test.said {
					go w.post(ctx, http.MethodPost, session, message)
					synctest.Wait()
				}
				breakOff()
				synctest.Wait()
				if w.calls.canceled != test.want || len(w.calls.made) != 1 {
					t.Errorf("%d calls, %d cancelled, want %d", len(w.calls.made), w.calls.canceled, test.want)
				}
				w.calls.with(func(d *host.Description) {
					if d.Resolution == nil {
						resolve(d, agentproto.ByResult, "done")
					}
				})
				w.post(t.Context(), http.MethodDelete, session, "")
			})
		})
	}
}
