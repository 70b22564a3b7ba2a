package durable

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A steadyLog makes a step seem to appear between two reads of its history: odd reads do not return the last
// step.
type steadyLog struct {
	*journal.Memory
	looks *int
}

func (l steadyLog) Restore(ctx context.Context, p int) (*journal.History, error) {
	h, err := l.Memory.Restore(ctx, p)
	if *l.looks++; err != nil || *l.looks%2 == 0 {
		return h, err
	}
	h.Steps = slices.Clone(h.Steps[:len(h.Steps)-1])
	h.Fence = h.Steps[len(h.Steps)-1].Fence
	return h, nil
}

// TestCheckBesideSteps checks that Check reports no damage in a healthy flow where a waiting record was sent
// after a step that was committed during the check.
func TestCheckBesideSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		app := start(t, log, keptProcess, Options{SnapshotAge: time.Hour})
		put(t, app, 0, 3)
		log.Crash()
		<-app.Done()
		log = log.Reopen()
		h, err := log.Restore(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(t.Context(), 0, app.core.originOf(0).record(nil, h.Fence, putRecord(t, app, "waits"))); err != nil {
			t.Fatal(err)
		}
		looks := 0
		all, err := Check(t.Context(), quiet(Options{Log: journal.Opened{Log: steadyLog{log, &looks}}}))
		if err != nil || len(all) != 1 || all[0].Last >= h.Fence || all[0].Waiting != 2 {
			t.Errorf("%+v, %v; the last step is %d", all, err, h.Fence)
		}
		if looks != 2 {
			t.Errorf("the history was looked at %d times, want twice: before the records and at the one that waits", looks)
		}
	})
}

// TestCheckBehindSnapshot checks that Check finds a gap between the snapshot and the first step after it.
func TestCheckBehindSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		app := start(t, log, keptProcess, Options{SnapshotAge: time.Hour})
		put(t, app, 0, 3)
		stop(t, app) // with a snapshot
		log = log.Reopen()
		app = start(t, log, keptProcess, Options{SnapshotAge: time.Hour})
		put(t, app, 3, 8)
		log.Crash()
		<-app.Done()
		bad := rotten{Memory: log.Reopen(), history: func(h *journal.History) { h.Steps = h.Steps[2:] }}
		_, err := Check(t.Context(), quiet(Options{Log: journal.Opened{Log: bad}}))
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "its steps begin with step") {
			t.Errorf("the first two steps behind the snapshot are gone: %v", err)
		}
	})
}
