package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A stepless log takes records, and no steps once it is full.
type stepless struct {
	*journal.Memory
	full *atomic.Bool
}

func (l stepless) Commit(ctx context.Context, p int, fence uint64, step []byte) (uint64, error) {
	if l.full.Load() {
		return 0, journal.ErrFull
	}
	return l.Memory.Commit(ctx, p, fence, step)
}

// TestAPIFullDisk checks that a request whose outcome is not known, because the disk is full, is answered 503.
func TestAPIFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sealer, err := host.SealerOf([32]byte{1})
		if err != nil {
			t.Fatal(err)
		}
		var full atomic.Bool
		quiet := slog.New(slog.DiscardHandler)
		ctx, cancel := context.WithCancel(t.Context())
		rt, err := host.Start(ctx, host.Options{
			External: true, PublicURL: "https://runtime.test", Sealer: sealer, Logger: quiet, Model: conversation.Script{{Text: "Noted."}},
			State: &durable.Options{Log: journal.Opened{Log: stepless{journal.NewMemory(journal.MemoryOptions{}), &full}}, Logger: quiet},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rt.OpenSession(ctx, host.SessionRequest{ID: "s"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		full.Store(true)
		for _, is := range []struct{ method, path, body string }{
			{"POST", "/calls", `{"group_id":"g","id":"1","operation":"echo"}`},
			{"GET", "/calls/g/2", ""},
			{"GET", "/calls/g/2/state", ""},
			{"POST", "/calls/g/2/answers", `{"prompt":1}`},
			{"DELETE", "/threads/s", ""},
			{"POST", "/sessions", `{"id":"s2"}`},
			{"POST", "/sessions", `{"id":"s"}`},
			{"POST", "/threads/s/messages", `{"text":"hello"}`},
			{"POST", "/threads/s/messages", `{"text":"hello","key":"k"}`},
			{"GET", "/threads/s/messages", ""},
			{"GET", "/threads/s/events", ""},
			{"POST", "/threads/s/interrupt", ""},
			{"POST", "/agui", `{"threadId":"s","runId":"r","messages":[{"id":"u","role":"user","content":"hello"}]}`},
		} {
			began := time.Now()
			w := httptest.NewRecorder()
			impatient, leave := context.WithTimeout(ctx, time.Minute)
			api{rt: rt}.handler().ServeHTTP(w, httptest.NewRequestWithContext(impatient, is.method, is.path, strings.NewReader(is.body)))
			leave()
			if took := time.Since(began); w.Code != http.StatusServiceUnavailable || took > 3*acceptWithin {
				t.Errorf("%s %s: %d after %v: %s", is.method, is.path, w.Code, took, w.Body)
			}
		}
		full.Store(false)
		time.Sleep(time.Minute)
		cancel()
		<-rt.Done()
	})
}
