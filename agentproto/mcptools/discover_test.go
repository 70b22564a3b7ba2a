package mcptools

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A slow server answers every request after a time. It describes itself as a resource, and no authorization server.
type slow struct{ after time.Duration }

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(s.after):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	resp := &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody, Request: r}
	if r.URL.Path == "/.well-known/oauth-protected-resource/mcp" {
		resp.StatusCode, resp.Body = http.StatusOK, io.NopCloser(strings.NewReader(`{"resource":"https://s.example/mcp","authorization_servers":["https://idp.example"]}`))
	}
	return resp, nil
}

// TestSlowDiscovery has twenty calls look for a slow authorization server. The test fails if one of them waits for longer than a
// minute because others are looking, if one that is cancelled goes on waiting, or if the document of the client is served late.
func TestSlowDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Transport: slow{14 * time.Second}}
		m := &member{
			server: &Server{Name: "s", URL: "https://s.example/mcp"}, pages: "https://tools.example/mcp/s", log: slog.New(slog.DiscardHandler),
			outside: &outside{metadata: client, others: client}, discovering: make(chan struct{}, 1),
		}
		begin := time.Now()
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() {
				_, err := m.discover(t.Context(), &challenge{})
				if _, ok := errors.AsType[discoveryError](err); !ok || time.Since(begin) > time.Minute {
					t.Errorf("after %v: %v", time.Since(begin), err)
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("the call was cancelled")
		cancel(gone)
		if _, err := m.discover(ctx, &challenge{}); !errors.Is(err, gone) || time.Since(begin) > 0 {
			t.Errorf("cancelled: %v after %v", err, time.Since(begin))
		}
		w := httptest.NewRecorder()
		m.serveDocument(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != http.StatusOK || time.Since(begin) > 0 {
			t.Errorf("the document: %d after %v", w.Code, time.Since(begin))
		}
		calls.Wait()
	})
}
