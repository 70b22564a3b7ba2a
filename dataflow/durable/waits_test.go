package durable

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestWaitsAreSaid checks the log messages of waits: one when a wait starts, then one a minute for the partition, and
// one when no wait is left. More would fill a disk that is full already.
func TestWaitsAreSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said safeBuffer
		c := &core{opts: Options{Logger: slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))}}
		refused := func(w *waiter, seconds int) {
			for range seconds {
				w.failed("waits for room", journal.ErrFull)
				<-time.After(time.Second)
			}
		}
		want := func(lines ...string) {
			t.Helper()
			got := slices.DeleteFunc(strings.Split(said.String(), "\n"), func(l string) bool { return l == "" })
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], `error="`+journal.ErrFull.Error()+`" `, "")
			}
			if !slices.Equal(got, lines) {
				t.Fatalf("said was\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
			}
		}
		first, second, other := c.waiter("a step", 0), c.waiter("a step", 0), c.waiter("a step", 1)
		second.end() // it was not refused
		refused(&first, 59)
		all := []string{`level=ERROR msg="a step waits for room" partition=0 refusals=1`}
		want(all...)
		refused(&second, 2)
		all = append(all, `level=ERROR msg="a step waits for room" partition=0 refusals=60`)
		want(all...)
		first.end()
		want(all...) // the other one still waits
		second.end()
		all = append(all, `level=INFO msg="a step does not wait any longer" partition=0 waited=1m1s refusals=0`)
		want(all...)
		refused(&first, 1) // again, within the minute
		first.end()
		want(all...)
		refused(&other, 1)
		all = append(all, `level=ERROR msg="a step waits for room" partition=1 refusals=1`)
		want(all...)
	})
}

// A stepless log refuses steps while full is set.
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

// TestFullDiskIsSaidSeldom has a full log for ten minutes while the flow has a step and a record in progress. The owner
// must log it once a minute.
func TestFullDiskIsSaidSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said safeBuffer
		var full atomic.Bool
		app := start(t, stepless{journal.NewMemory(journal.MemoryOptions{}), &full}, chunkFlow, Options{Partitions: 1, SnapshotAge: time.Hour, Logger: slog.New(slog.NewTextHandler(&said, nil))})
		full.Store(true)
		if err := app.Ports.in.Send(t.Context(), "key", chunk{Data: []byte("a"), Echo: true}); err != nil {
			t.Fatal(err)
		}
		<-time.After(10*time.Minute + time.Second)
		if n := strings.Count(said.String(), "waits for room"); n != 11 {
			t.Errorf("in ten minutes it was said %d times, want 11:\n%s", n, said.String())
		}
		full.Store(false)
		if got, err := app.Ports.out.Next(t.Context()); got != "a" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if !strings.Contains(said.String(), "a step does not wait any longer") {
			t.Errorf("it was not said that the step goes on:\n%s", said.String())
		}
		stop(t, app)
	})
}
