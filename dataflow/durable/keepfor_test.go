package durable

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A readSteps log counts the steps that its readers return.
type readSteps struct {
	*journal.Memory
	n *atomic.Int64
}

func (l readSteps) Steps(ctx context.Context, p int, after uint64) (journal.StepReader, error) {
	r, err := l.Memory.Steps(ctx, p, after)
	return countingSteps{r, l.n}, err
}

type countingSteps struct {
	journal.StepReader
	n *atomic.Int64
}

func (r countingSteps) Next(ctx context.Context) (journal.Step, error) {
	r.n.Add(1)
	return r.StepReader.Next(ctx)
}

// lookBack returns the time between the oldest and the last stored step, and the number of stored steps. It
// checks that the history is consistent.
func lookBack(t *testing.T, log *journal.Memory) (oldest time.Duration, n int) {
	t.Helper()
	if _, err := Check(t.Context(), quiet(Options{Log: journal.Opened{Log: log.Reopen()}})); err != nil {
		t.Error(err)
	}
	h, err := OpenHistory(t.Context(), accounts, quiet(Options{Log: journal.Opened{Log: log.Reopen()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var first, last StepInfo
	for s, err := range h.Steps(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1 {
			first = s
		}
		last = s
	}
	if v, err := h.Verify(t.Context(), 0); err != nil {
		t.Errorf("%+v: %v", v, err)
	}
	if first.Number > 1 {
		err := h.Replay(t.Context(), 0, first.Number, &bytes.Buffer{}, 0)
		if err == nil || !strings.Contains(err.Error(), "KeepFor") {
			t.Errorf("replay to step %d, which has no beginning: %v", first.Number, err)
		}
	}
	return last.At.Sub(first.At), n
}

// TestKeepFor commits a step a minute and restarts with other values of KeepFor on the same history.
func TestKeepFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slack = 4 * time.Minute // the two snapshots
		log := journal.NewMemory(journal.MemoryOptions{})
		var read atomic.Int64
		run := func(keep time.Duration, minutes int) {
			app := start(t, readSteps{log, &read}, accounts, Options{KeepFor: keep, SnapshotAge: time.Minute})
			for range minutes {
				post(t, app, posting{N: 10})
				time.Sleep(time.Minute)
			}
			stop(t, app)
			log = log.Reopen()
		}
		made := 0
		for _, c := range []struct {
			keep        time.Duration
			minutes     int
			least, most time.Duration // the minute between two steps is subtracted from least
		}{
			{30 * time.Minute, 20, 19 * time.Minute, 20 * time.Minute},
			{30 * time.Minute, 60, 30 * time.Minute, 30*time.Minute + slack},
			{10 * time.Minute, 5, 10 * time.Minute, 10*time.Minute + slack},
			{30 * time.Minute, 10, 20 * time.Minute, 20*time.Minute + slack}, // purged steps do not come back
			{Forever, 100, 120 * time.Minute, 120*time.Minute + slack},
			{time.Minute, 5, time.Minute, time.Minute + slack},
			{0, 5, 0, slack},
		} {
			before := read.Load()
			run(c.keep, c.minutes)
			made += c.minutes
			oldest, n := lookBack(t, log)
			if oldest < c.least-time.Minute || oldest > c.most {
				t.Errorf("KeepFor %v: the oldest of %d steps is of %v before the last", c.keep, n, oldest)
			}
			// Each step is read once to be purged. A snapshot also reads one step that stays, with at most two
			// snapshots a minute.
			if reads := read.Load() - before; (c.keep == 0 || c.keep == Forever) != (reads == 0) || reads > int64(made+3*c.minutes+10) {
				t.Errorf("KeepFor %v: %d steps were read in %d minutes", c.keep, reads, c.minutes)
			}
		}
		run(10*time.Minute, 20)
		oldest, n := lookBack(t, log)
		time.Sleep(24 * time.Hour) // the time of the history stands still
		if again, m := lookBack(t, log); again != oldest || m != n {
			t.Errorf("%d steps of %v while it was down, %d of %v before", m, again, n, oldest)
		}
		app := start(t, log, accounts, Options{KeepFor: 10 * time.Minute, SnapshotAge: time.Minute})
		time.Sleep(24 * time.Hour) // no record arrives
		stop(t, app)
		if again, m := lookBack(t, log); again != oldest || m != n {
			t.Errorf("%d steps of %v after it was idle, %d of %v before", m, again, n, oldest)
		}
	})
}

// TestKeepForAndMaxBytes sends much more than the log may keep. MaxBytes takes precedence over KeepFor.
func TestKeepForAndMaxBytes(t *testing.T) {
	for _, o := range []Options{onlyFull, {}} {
		synctest.Test(t, func(t *testing.T) {
			const limit = 256 << 10
			log := journal.NewMemory(journal.MemoryOptions{Partitions: 4, MaxBytes: limit})
			within(t, log)
			o.KeepFor = 1000 * time.Hour
			for range 3 { // the second and the third start full
				app := start(t, log, chunkFlow, o)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				all := keysOf(16)
				if err := sendChunks(ctx, app, all, 20, func() chunk { return chunk{Data: noise(4 << 10)} }); err != nil {
					t.Fatal(err)
				}
				if err := sendChunks(ctx, app, all[:1], 200, func() chunk { return chunk{Data: noise(4 << 10)} }); err != nil { // the others are idle
					t.Fatal(err)
				}
				cancel()
				app.core.abandoned.Store(true)
				stop(t, app)
				log = log.Reopen()
				within(t, log)
			}
		})
	}
}

// TestKeepForDamaged has a damaged step in the history. It stays until a later step is purged, and the flow
// continues.
func TestKeepForDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		bad := badStep{log, new(atomic.Uint64)}
		app := start(t, bad, accounts, Options{KeepFor: 10 * time.Minute, SnapshotAge: time.Minute})
		for i := range 60 {
			if i == 5 {
				bad.fence.Store(4)
			}
			post(t, app, posting{N: 10})
			time.Sleep(time.Minute)
		}
		stop(t, app)
		if oldest, n := lookBack(t, log); oldest > 14*time.Minute || oldest < 9*time.Minute {
			t.Errorf("the oldest of %d steps is of %v before the last", n, oldest)
		}
	})
}

// TestKeepForUnread has a log that fails to return its steps. The flow continues, and nothing is purged.
func TestKeepForUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		bad := badStep{log, new(atomic.Uint64)}
		bad.fence.Store(1 << 60)
		app := start(t, bad, accounts, Options{KeepFor: 10 * time.Minute, SnapshotAge: time.Minute})
		for range 30 {
			post(t, app, posting{N: 10})
			time.Sleep(time.Minute)
		}
		stop(t, app)
		if m := app.Metrics(); m.Snapshots < 20 {
			t.Errorf("%d snapshots", m.Snapshots)
		}
		if oldest, _ := lookBack(t, log); oldest < 28*time.Minute {
			t.Errorf("the oldest step is of %v before the last", oldest)
		}
	})
}

// A badStep log flips a bit in the step with the given fence. If the fence is 1<<60, it fails every read of a
// step.
type badStep struct {
	*journal.Memory
	fence *atomic.Uint64
}

func (l badStep) Steps(ctx context.Context, p int, after uint64) (journal.StepReader, error) {
	r, err := l.Memory.Steps(ctx, p, after)
	return badSteps{r, l.fence}, err
}

type badSteps struct {
	journal.StepReader
	fence *atomic.Uint64
}

func (r badSteps) Next(ctx context.Context) (journal.Step, error) {
	s, err := r.StepReader.Next(ctx)
	switch fence := r.fence.Load(); {
	case fence == 1<<60:
		return s, errors.New("a disk that does not read")
	case fence == s.Fence:
		s.Data = flip(bytes.Clone(s.Data), .5)
	}
	return s, err
}
