package durable

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
)

type jobPorts struct {
	in  *dataflow.EntryInputPort[string, int]
	out *dataflow.EntryOutputPort[string, int]
}

// jobs outputs each entry that is put.
func jobs(f *dataflow.Flow) jobPorts {
	in, entries := keyedsingleton.Input[string, int](dataflow.At[members](f), "jobs")
	return jobPorts{in, keyedsingleton.Output(entries, "results")}
}

// A claim counts the results of the calls of Take for one key.
type claim struct {
	has    atomic.Int32 // returned the entry
	unsure atomic.Int32 // returned that the result is unknown
}

// take takes entry number i, and gives up if the entry does not arrive.
func (c *claim) take(ctx context.Context, t *testing.T, app *App[jobPorts], i int) {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	switch v, err := app.Ports.out.Take(ctx, fmt.Sprint("k", i)); {
	case err == nil && v == i+1:
		c.has.Add(1)
	case err == nil:
		t.Errorf("Take of %d returned %d", i, v)
	case v != 0 && !errors.Is(err, dataflow.ErrTaken):
		c.unsure.Add(1)
	case v != 0:
		t.Errorf("Take of %d returned %d and that somebody else has it", i, v)
	}
}

// putJobs puts n entries in batches.
func putJobs(t *testing.T, app *App[jobPorts], n int) {
	t.Helper()
	var ks []string
	var vs []int
	for i := range n {
		ks, vs = append(ks, fmt.Sprint("k", i)), append(vs, i+1)
	}
	if _, err := app.Ports.in.PutBatch(t.Context(), ks, vs); err != nil {
		t.Fatal(err)
	}
}

// TestTakeOnce has two processes and a client take the same entries while partitions move to a
// third process and one of the first two ends without leaving. No entry is taken twice, and
// all are gone in the end. An entry may be lost only if a Take for it had an unknown result.
func TestTakeOnce(t *testing.T) {
	const entries, takers = 400, 4
	opts := Options{Log: natslog.Servers(natslog.Options{URLs: []string{natsServer(t)}, Replicas: 1, AssumeDurable: true}), Name: "takes", Partitions: 4, Lease: time.Second}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	asClient := opts
	asClient.Client = true
	dies, lives, client := start(t, nil, jobs, opts), start(t, nil, jobs, opts), start(t, nil, jobs, asClient)
	putJobs(t, client, entries)

	all := make([]claim, entries)
	over := make(chan struct{})
	var taking, taken sync.WaitGroup
	taken.Add(entries / 4)
	var announced atomic.Int32
	for who, app := range []*App[jobPorts]{dies, lives, client} {
		for g := range takers {
			taking.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-over:
						return
					case <-app.Done():
						return
					default:
					}
					n := (i + g*entries/takers + who*entries/3) % entries
					if c := &all[n]; c.has.Load() == 0 {
						c.take(ctx, t, app, n)
						if c.has.Load() > 0 && announced.Add(1) <= entries/4 {
							taken.Done()
						}
					}
				}
			})
		}
	}
	taken.Wait()
	joined := start(t, nil, jobs, opts)
	dead, die := context.WithCancel(ctx)
	die()
	if err := dies.Stop(dead); !errors.Is(err, context.Canceled) {
		t.Errorf("Stop without a word: %v", err)
	}
	kept := func() (n int) { return lives.Ports.out.Len() + joined.Ports.out.Len() }
	owned := func() bool {
		for p := range lives.core.gateway.partitions {
			if !lives.core.gateway.partitions[p].isOwned() && !joined.core.gateway.partitions[p].isOwned() {
				return false
			}
		}
		return true
	}
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !owned() || kept() > 0 {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%d entries are left", kept())
		}
	}
	close(over)
	taking.Wait()
	for i := range all {
		if n := all[i].has.Load(); n > 1 || n == 0 && all[i].unsure.Load() == 0 {
			t.Errorf("k%d was taken %d times", i, n)
		}
		for _, app := range []*App[jobPorts]{lives, joined, client} {
			if v, ok := app.Ports.out.Get(fmt.Sprint("k", i)); ok {
				t.Errorf("k%d: %d is still at a port", i, v)
			}
		}
	}
	for _, app := range []*App[jobPorts]{client, joined, lives} {
		stop(t, app)
	}
}

// TestTakeCrash ends a process again and again while entries are taken. No entry is taken
// twice, and entries that no Take asked for remain.
func TestTakeCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const entries, takers, crashes = 60, 8, 6
		log := journal.NewMemory(journal.MemoryOptions{Partitions: 4})
		opts := Options{Partitions: 4, SnapshotBytes: 500}
		app := start(t, log, jobs, opts)
		putJobs(t, app, entries)
		all := make([]claim, entries)
		for crash := range crashes {
			last := crash == crashes-1
			var taking sync.WaitGroup
			for g := range takers {
				taking.Go(func() {
					for i := range entries {
						if n := (i + g*entries/takers) % entries; all[n].has.Load() == 0 && (last || n%crashes <= crash) {
							if _, ok := app.Ports.out.Get(fmt.Sprint("k", n)); ok {
								all[n].take(t.Context(), t, app, n)
							}
						}
						if g == 0 && !last && i == entries/2 {
							log.Crash()
						}
					}
				})
			}
			taking.Wait()
			if last {
				break
			}
			<-app.Done()
			log = log.Reopen()
			app = start(t, log, jobs, opts)
			for i := range all {
				c := &all[i]
				_, ok := app.Ports.out.Get(fmt.Sprint("k", i))
				switch {
				case ok && c.has.Load() > 0:
					t.Errorf("crash %d: k%d was taken and is there", crash, i)
				case !ok && c.has.Load() == 0 && c.unsure.Load() == 0:
					t.Errorf("crash %d: k%d is gone, and nobody took it", crash, i)
				}
			}
		}
		for i := range all {
			if n := all[i].has.Load(); n > 1 || n == 0 && all[i].unsure.Load() == 0 {
				t.Errorf("k%d was taken %d times", i, n)
			}
		}
		if n := app.Ports.out.Len(); n != 0 {
			t.Errorf("%d entries are left", n)
		}
		stop(t, app)
	})
}

// TestTakeElsewhere awaits and takes entries through a client. The client keeps none of them,
// and the owner no longer has the entry that the client took.
func TestTakeElsewhere(t *testing.T) {
	opts := Options{Log: natslog.Servers(natslog.Options{URLs: []string{natsServer(t)}, Replicas: 1, AssumeDurable: true}), Name: "takes", Partitions: 2}
	app := start(t, nil, jobs, opts)
	opts.Client = true
	client := start(t, nil, jobs, opts)
	putJobs(t, app, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range 2 {
		for i := range 2 {
			await(t, client.Ports.out, fmt.Sprint("k", i), i+1)
		}
	}
	if v, err := client.Ports.out.Take(ctx, "k1"); v != 2 || err != nil {
		t.Errorf("Take: %d, %v", v, err)
	}
	if n := client.Ports.out.Len(); n != 0 {
		t.Errorf("the client keeps %d entries", n)
	}
	if _, ok := app.Ports.out.Get("k1"); ok || app.Ports.out.Len() != 1 {
		t.Errorf("the process has the entry that was taken: %v, and %d entries", ok, app.Ports.out.Len())
	}
	soon, stopped := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stopped()
	if v, err := client.Ports.out.Take(soon, "k1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Take of what is gone: %d, %v", v, err)
	}
	stop(t, client)
	stop(t, app)
}
