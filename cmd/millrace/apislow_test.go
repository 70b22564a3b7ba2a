package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto/host"
)

// TestAPISlowToolServer makes a call of a new thread while a tool server that has answered before is silent. Finding the tools may
// take longer than keeping the call may.
func TestAPISlowToolServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		const base = "http://tools.invalid"
		tools := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if silent.Load() {
				<-r.Context().Done()
				return
			}
			io.WriteString(w, `{"name":"tools","endpoint":"`+base+`/invoke","tools":[{"name":"echo","description":"","inputSchema":{"type":"object"}}]}`)
		})
		ctx, cancel := context.WithCancel(t.Context())
		rt, err := host.Start(ctx, host.Options{
			External: true, PublicURL: "https://runtime.test", Logger: slog.New(slog.DiscardHandler), Local: map[string]http.Handler{base: tools},
		})
		if err != nil {
			t.Fatal(err)
		}
		silent.Store(true)
		w := httptest.NewRecorder()
		began := time.Now()
		api{rt: rt}.handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", "/calls", strings.NewReader(`{"group_id":"g","id":"1","operation":"echo"}`)))
		if w.Code != http.StatusAccepted {
			t.Errorf("%d after %v: %s", w.Code, time.Since(began), w.Body)
		}
		cancel()
		<-rt.Done()
	})
}
