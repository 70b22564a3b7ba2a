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
			External: true, PublicURL: "https://runtime.test", Sealer: sealer, Logger: quiet,
			State: &durable.Options{Log: journal.Opened{Log: stepless{journal.NewMemory(journal.MemoryOptions{}), &full}}, Logger: quiet},
		})
		if err != nil {
			t.Fatal(err)
		}
		full.Store(true)
		for _, is := range []struct{ method, path, body string }{
			{"POST", "/calls", `{"group_id":"g","id":"1","operation":"echo"}`},
			{"GET", "/calls/g/2", ""},
		} {
			began := time.Now()
			w := httptest.NewRecorder()
			api{rt: rt}.handler().ServeHTTP(w, httptest.NewRequest(is.method, is.path, strings.NewReader(is.body)))
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
