package durable

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestCrashPointsAhead crashes the process at each moment of a run on a log that is read ahead. Records that
// no step has taken are lost then. It checks that nothing of a step is shown before the step is durable.
func TestCrashPointsAhead(t *testing.T) {
	attempt := func(options Options, hook journal.Hook) []string {
		t.Helper()
		return trialOn(t, crashFlow, journal.MemoryOptions{Hook: hook, Ahead: true}, 1, false, options)
	}
	large := tiny
	large.SnapshotBytes, large.StepBytes = 1<<20, 1<<20
	for name, options := range map[string]Options{"tiny": tiny, "large": large} {
		hook, count := points(nil)
		report(t, "without a fault", attempt(options, hook))
		moments := count.Load()
		if moments < 60 {
			t.Fatalf("there are only %d moments to crash at", moments)
		}
		for what, fault := range map[string]func(journal.Action) journal.Fault{"crash": crash, "fail": fail} {
			for at := int64(1); at <= moments && !t.Failed(); at++ {
				hook, _ := points(fault, at)
				report(t, fmt.Sprintf("%s steps: %s at moment %d of %d", name, what, at, moments), attempt(options, hook))
			}
		}
	}
}

// TestCrashTwiceAhead crashes the process at two moments of a run with concurrent senders.
func TestCrashTwiceAhead(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for n := 0; n < *crashes && !t.Failed(); n++ {
		a := rng.Int64N(120) + 1
		b := a + 1 + rng.Int64N(40)
		build, partitions := crashFlow, 1
		if n%3 == 0 {
			build, partitions = crashCluster, 3
		}
		hook, _ := points(crash, a, b)
		report(t, fmt.Sprintf("attempt %d, moments %d and %d", n, a, b),
			trialOn(t, build, journal.MemoryOptions{Hook: hook, Partitions: partitions, Ahead: true}, 1, true, tiny))
	}
}

// TestAheadNotShown holds the commit of a step whose records are not durable, and crashes the process there.
// It checks that until then no entry is shown, no send is acknowledged and no call is made.
func TestAheadNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int64
		var hold atomic.Bool
		until := make(chan struct{})
		log := journal.NewMemory(journal.MemoryOptions{Ahead: true, Hook: func(a journal.Action) journal.Fault {
			if !a.Done && hold.Load() && a.Op == journal.OpCommit {
				return journal.Fault{Until: until}
			}
			return journal.Fault{}
		}})
		build := calling(func() int64 { return made.Add(1) })
		app := start(t, log, build, Options{})
		hold.Store(true)
		put := make(chan error, 1)
		go func() { put <- app.Ports.in.Put(context.Background(), "k", 1) }()
		synctest.Wait() // the record is read but not durable, and its step waits
		if n := made.Load(); n != 0 || len(put) != 0 {
			t.Errorf("%d calls were made, and %d entries acknowledged, before anything was durable", n, len(put))
		}
		hold.Store(false)
		log.Crash()
		<-app.Done()
		close(until)
		if err := <-put; err == nil {
			t.Error("an entry that is lost was acknowledged")
		}
		app = start(t, log.Reopen(), build, Options{})
		time.Sleep(time.Second)
		if n := made.Load(); n != 0 {
			t.Errorf("%d calls were made for an entry that is lost", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := app.Ports.answers.Await(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("awaiting the answer of what is lost: %v", err)
		}
		if err := app.Ports.in.Put(t.Context(), "k", 2); err != nil {
			t.Errorf("the key of an entry that is lost cannot be used: %v", err)
		}
		stop(t, app)
	})
}
