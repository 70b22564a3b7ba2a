package durable

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A meanwhile log calls do once, after the pieces of a snapshot were read.
type meanwhile struct {
	*journal.Memory
	once *sync.Once
	do   func()
}

func (l meanwhile) Pieces(ctx context.Context, p int, first, last uint64) ([]journal.Piece, error) {
	all, err := l.Memory.Pieces(ctx, p, first, last)
	l.once.Do(l.do)
	return all, err
}

// TestSnapshotsAtHandover has an owner save two snapshots, and purge what the one before them
// refers to, while another process restores from that one. The other process continues after the
// last step, and must not save a snapshot that refers to purged pieces.
func TestSnapshotsAtHandover(t *testing.T) {
	for _, when := range []string{"when all is read", "before all is read"} {
		t.Run(when, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { handOver(t, when == "before all is read") }) })
	}
}

func handOver(t *testing.T, early bool) {
	var fail, hold atomic.Bool
	release := make(chan struct{})
	log := journal.NewMemory(journal.MemoryOptions{})
	log.SetHook(func(a journal.Action) (f journal.Fault) {
		f.Fail = a.Op == journal.OpPiece && fail.Load()
		if a.Op == journal.OpSnapshot && hold.Load() {
			f.Until = release
		}
		return f
	})
	opts := Options{SnapshotAge: time.Minute, KeepFor: Forever} // so the other process finds all records
	first := start(t, log, accounts, opts)
	post(t, first, posting{N: 10})
	time.Sleep(3 * time.Minute)
	fail.Store(true) // so that the next snapshot is in other pieces
	post(t, first, posting{N: 10})
	time.Sleep(3 * time.Minute)
	fail.Store(false)
	hold.Store(true)
	post(t, first, posting{N: 10})
	time.Sleep(3 * time.Minute)
	post(t, first, posting{N: 10})

	reopened := log.Reopen()
	reopened.SetHook(nil)
	leave := func() {
		close(release)
		stop(t, first)
	}
	opts.Log = journal.Opened{Log: meanwhile{reopened, new(sync.Once), leave}}
	if early {
		opts.Log = journal.Opened{Log: before{meanwhile{reopened, new(sync.Once), leave}}}
	}
	second, err := Start(t.Context(), accounts, quiet(opts))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		post(t, second, posting{N: 10})
		time.Sleep(3 * time.Minute)
	}
	reopened.Crash()
	<-second.Done()

	third := start(t, log.Reopen(), accounts, Options{})
	post(t, third, posting{Of: make([]int, 93)})
	if sum, err := third.Ports.every.Next(t.Context()); err != nil || sum != 0 {
		t.Errorf("the hundredth posting gives %d (%v), want 0", sum, err)
	}
	stop(t, third)
}

// A before log calls do before the pieces are read.
type before struct{ meanwhile }

func (l before) Pieces(ctx context.Context, p int, first, last uint64) ([]journal.Piece, error) {
	l.once.Do(l.do)
	return l.Memory.Pieces(ctx, p, first, last)
}
