package durable

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A refusingLog refuses records while full is set.
type refusingLog struct {
	*journal.Memory
	full *atomic.Bool
}

func (l refusingLog) Append(ctx context.Context, p int, records ...[]byte) (uint64, error) {
	if l.full.Load() {
		return 0, journal.ErrFull
	}
	return l.Memory.Append(ctx, p, records...)
}

// TestReadWhileFull reads all outputs while the log has no room to record that they were read. The flow must
// record it when there is room. Otherwise the outputs would fill the log and come again after a crash.
func TestReadWhileFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := journal.NewMemory(journal.MemoryOptions{})
		var full atomic.Bool
		app := start(t, refusingLog{memory, &full}, chunkFlow, Options{Partitions: 1, SnapshotAge: time.Hour})
		for _, x := range []string{"a", "b"} {
			if err := app.Ports.in.Send(t.Context(), "key", chunk{Data: []byte(x), Echo: true}); err != nil {
				t.Fatal(err)
			}
		}
		next := func(app *App[chunkPorts]) (string, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return app.Ports.out.Next(ctx)
		}
		full.Store(true)
		for _, want := range []string{"a", "b", ""} { // the next read acknowledges the previous one
			if got, err := next(app); got != want || (err == nil) != (want != "") {
				t.Errorf("%q, %v, want %q", got, err, want)
			}
		}
		full.Store(false)
		time.Sleep(time.Second)
		memory.Crash()
		<-app.Done()
		app = start(t, memory.Reopen(), chunkFlow, Options{Partitions: 1})
		if got, err := next(app); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after a crash %q comes again, %v", got, err)
		}
		stop(t, app)
	})
}

// TestSaysWhatWaits checks that an owner that waits for room logs it once a minute.
func TestSaysWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said safeBuffer
		o := &owner{core: &core{opts: Options{Logger: slog.New(slog.NewTextHandler(&said, nil))}}}
		ctx, cancel := context.WithTimeout(t.Context(), 2*fullAgain+2*longestWait)
		defer cancel()
		if err := o.retry(ctx, "a test", func() error { return journal.ErrFull }); !errors.Is(err, journal.ErrFull) {
			t.Error(err)
		}
		if got := strings.Count(said.String(), "a test waits for room"); got != 3 {
			t.Errorf("it was said %d times in two minutes, want 3 times:\n%s", got, said.String())
		}
	})
}

// A roomyLog reports a fixed amount of room.
type roomyLog struct {
	journal.Log
	room journal.Room
	err  error
}

func (l roomyLog) Room(context.Context) (journal.Room, error) { return l.room, l.err }

// TestCleaning checks how many bytes of unchanged state a snapshot may write again. Too many would leave no room
// for the next snapshot. In a log without a limit, too few would let the state grow.
func TestCleaning(t *testing.T) {
	for _, c := range []struct {
		name     string
		limit    int64
		log      roomyLog
		reserved int64
		want     int
	}{
		{"no limit", 0, roomyLog{}, 0, math.MaxInt},
		{"no limit, and no answer", 0, roomyLog{err: journal.ErrClosed}, 0, math.MaxInt},
		{"no answer", 1600, roomyLog{room: journal.Room{Free: 1000, Limit: 1600}, err: journal.ErrClosed}, 0, 0},
		{"free", 1 << 20, roomyLog{room: journal.Room{Free: 1 << 19, Limit: 1 << 20}}, 0, 1<<19 - 1<<16},
		{"reserved", 1600, roomyLog{room: journal.Room{Free: 1000, Limit: 1600}}, 300, 600},
		{"nothing left", 1600, roomyLog{room: journal.Room{Free: 100, Limit: 1600}}, 0, 0},
		{"less than nothing", 1600, roomyLog{room: journal.Room{Free: 50, Limit: 1600}}, 300, 0},
	} {
		o := &owner{core: &core{log: c.log, limit: c.limit, reserved: reserved{bytes: c.reserved}}}
		if got := o.cleaning(t.Context()); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}
