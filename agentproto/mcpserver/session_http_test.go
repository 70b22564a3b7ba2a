package mcpserver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/mcpserver"
)

// post sends a message of a session of an older revision over HTTP.
func (w *world) post(ctx context.Context, method, session, body string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.postTo(ctx, rec, method, session, body)
	return rec
}

// postTo is post with a writer for the answer.
func (w *world) postTo(ctx context.Context, answer http.ResponseWriter, method, session, body string) {
	r := httptest.NewRequestWithContext(ctx, method, "/mcp", strings.NewReader(body))
	r.Host = "mcp.test"
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2025-11-25", "Mcp-Session-Id": session,
	} {
		if v != "" {
			r.Header.Set(k, v)
		}
	}
	w.server.ServeHTTP(answer, r)
}

// TestClientOfSessionGoes checks that a broken HTTP connection of a 2025-11-25 client does not cancel its call, and that
// notifications/cancelled does (MT25).
func TestClientOfSessionGoes(t *testing.T) {
	for said, want := range map[string]int{"": 0, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`: 1} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, mcpserver.Options{})
			begun := w.post(t.Context(), http.MethodPost, "",
				`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}`)
			session := begun.Header().Get("Mcp-Session-Id")
			if session == "" {
				t.Fatalf("no session: %d %s", begun.Code, begun.Body)
			}
			w.post(t.Context(), http.MethodPost, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan bool)
			go func() {
				defer close(ended)
				w.post(ctx, http.MethodPost, session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one","arguments":{}}}`)
			}()
			synctest.Wait()
			if said != "" {
				w.post(t.Context(), http.MethodPost, session, said)
				synctest.Wait()
			}
			cancel()
			<-ended
			synctest.Wait()
			if w.calls.canceled != want || len(w.calls.made) != 1 {
				t.Errorf("after %q: %d calls, %d cancelled, want %d", said, len(w.calls.made), w.calls.canceled, want)
			}
			w.calls.with(func(d *host.Description) {
				if d.Resolution == nil {
					resolve(d, agentproto.ByResult, "done")
				}
			})
			w.post(t.Context(), http.MethodDelete, session, "")
		})
	}
}

// TestSessionsAreBounded begins more sessions than one owner may have, as a client does that never ends one. The sessions that are
// in use stay, and of the others the newest.
func TestSessionsAreBounded(t *testing.T) {
	w := newWorld(t, mcpserver.Options{Rate: 1 << 20})
	begin := func() string {
		t.Helper()
		rec := w.post(t.Context(), http.MethodPost, "",
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}`)
		session := rec.Header().Get("Mcp-Session-Id")
		if session == "" {
			t.Fatalf("no session: %d %s", rec.Code, rec.Body)
		}
		w.post(t.Context(), http.MethodPost, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		return session
	}
	ping := func(session string) int {
		return w.post(t.Context(), http.MethodPost, session, `{"jsonrpc":"2.0","id":2,"method":"ping"}`).Code
	}
	silent, listens, asks := begin(), begin(), begin()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	gone := make(chan bool)
	go func() {
		defer close(gone)
		w.post(ctx, http.MethodGet, listens, "")
	}()
	last := ""
	for range 600 {
		if last = begin(); ping(asks) != http.StatusOK {
			t.Fatal("a session that is used was closed")
		}
	}
	if code := ping(silent); code != http.StatusNotFound {
		t.Errorf("a session that nobody uses: %d", code)
	}
	select {
	case <-gone:
		t.Error("a session with a stream was closed")
	default:
	}
	for name, session := range map[string]string{"with a stream": listens, "that is the last one": last} {
		if code := ping(session); code != http.StatusOK {
			t.Errorf("a session %s: %d", name, code)
		}
	}
	leave()
	<-gone
}
