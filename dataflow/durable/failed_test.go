package durable

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/slice"
)

type delayPorts struct {
	in      *dataflow.EntryInputPort[int, int]
	out     *dataflow.EntryOutputPort[int, int]
	another *dataflow.EntryInputPort[int, int]
	late    *dataflow.OutputPort[int]
}

// delaying returns a flow that outputs each number a delay later, from a slice, and panics there on numbers
// for which bad returns true. No record and no timer is to blame for that. A second location does the same.
func delaying(delay time.Duration, bad func(int) bool) func(*dataflow.Flow) delayPorts {
	return func(f *dataflow.Flow) delayPorts {
		const why = "the test waits for it"
		check := func(x int) int {
			if bad(x) {
				panic(fmt.Sprint("no ", x))
			}
			return x
		}
		at, one := dataflow.At[members](f), dataflow.At[server](f)
		in, numbers := keyedsingleton.Input[int, int](at, "in")
		batch := slice.BatchEntries(slice.At(at), keyedsingleton.After(numbers, delay, why), why)
		out := keyedsingleton.Output(slice.EmitEntries(keyedsingleton.Map(batch, check)), "out")
		another, others := keyedsingleton.Input[int, int](one, "another")
		late := slice.EmitEntries(keyedsingleton.Map(slice.BatchEntries(slice.At(one), keyedsingleton.After(others, delay, why), why), check))
		return delayPorts{in, out, another, dataflow.Output(keyedsingleton.Values(late), "late")}
	}
}

// isStopped reports whether err is a [*PartitionError] of a partition that failed on x.
func isStopped(err error, partition, x int) bool {
	var p *PartitionError
	var step *dataflow.StepError
	return errors.As(err, &p) && p.Partition == partition && errors.As(err, &step) && strings.Contains(err.Error(), fmt.Sprint("no ", x))
}

// TestPartitionStops has a function fail that a slice calls. Its partition stops, calls that wait there
// return an error, and the other partitions continue. With a program that does not fail, nothing is lost.
func TestPartitionStops(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%v", killed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const keys = 30
				var mended atomic.Bool
				build := delaying(time.Second, func(x int) bool { return !mended.Load() && x == 7 })
				log := journal.NewMemory(journal.MemoryOptions{Partitions: 4})
				o := Options{Partitions: 3}
				app := start(t, log, build, o)
				of := func(k int) int { return app.core.layout.of(0, encoded(t, k)) }
				bad := of(7)
				waited := make(chan error, 2)
				go func() {
					_, err := app.Ports.out.Await(t.Context(), 7)
					waited <- err
				}()
				go func() { // waits for a key of the same partition that never comes
					k := keys
					for of(k) != bad {
						k++
					}
					_, err := app.Ports.out.Take(t.Context(), k)
					waited <- err
				}()
				for k := range keys {
					if err := app.Ports.in.Put(t.Context(), k, k); err != nil {
						t.Fatal(err)
					}
				}
				for range 2 {
					if err := <-waited; !isStopped(err, bad, 7) {
						t.Errorf("who waited has %v", err)
					}
				}
				for k := range keys {
					switch got, ok := app.Ports.out.Get(k); {
					case ok && got != k:
						t.Errorf("key %d has %d", k, got)
					case !ok && of(k) != bad:
						await(t, app.Ports.out, k, k)
					}
				}
				for k := keys; k < 2*keys; k++ { // after the stop
					err := app.Ports.in.Put(t.Context(), k, k)
					if of(k) != bad {
						await(t, app.Ports.out, k, k)
						continue
					}
					if _, e := app.Ports.out.Await(t.Context(), k); !isStopped(err, bad, 7) || !isStopped(e, bad, 7) {
						t.Errorf("Put: %v, Await: %v", err, e)
					}
				}
				if err := app.Retry(t.Context(), bad, 1); !isStopped(err, bad, 7) {
					t.Errorf("Retry: %v", err)
				}
				if letters, err := app.Quarantine(t.Context()); err != nil || len(letters) != 0 {
					t.Errorf("%v, %v", letters, err)
				}
				for p, st := range app.Status() {
					if (p == bad) != isStopped(st.Stopped, bad, 7) || p != bad && st.Stopped != nil || !st.Owned || st.Ended != (p == bad) {
						t.Errorf("partition %d: %+v", p, st)
					}
				}
				if err := app.Err(); err != nil {
					t.Errorf("the flow ended: %v", err)
				}
				if killed {
					log.Crash()
					<-app.Done()
				} else {
					stop(t, app)
				}
				mended.Store(true)
				app = start(t, log.Reopen(), build, o)
				for k := range keys {
					await(t, app.Ports.out, k, k)
				}
				stop(t, app)
			})
		})
	}
}

// TestTakeWhereStopped takes an entry of a partition that has stopped since. Take must not report that the
// flow has ended, because the other partitions continue.
func TestTakeWhereStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		build := delaying(time.Second, func(x int) bool { return x == 7 })
		app := start(t, journal.NewMemory(journal.MemoryOptions{Partitions: 4}), build, Options{Partitions: 3})
		bad := app.core.layout.of(0, encoded(t, 7))
		k := 8
		for app.core.layout.of(0, encoded(t, k)) != bad {
			k++
		}
		for _, x := range []int{k, 7} {
			if err := app.Ports.in.Put(t.Context(), x, x); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		if got, ok := app.Ports.out.Get(k); !ok || got != k {
			t.Errorf("key %d has %d, %v", k, got, ok)
		}
		if _, err := app.Ports.out.Take(t.Context(), k); !isStopped(err, bad, 7) || errors.Is(err, dataflow.ErrClosed) {
			t.Errorf("Take: %v", err)
		}
		stop(t, app)
	})
}

// TestPartitionStopsElsewhere has a partition of a shared flow stop, and its owner leave afterwards. All
// processes learn of it, those that take the partition over stop it as well, and the other partitions
// continue.
func TestPartitionStopsElsewhere(t *testing.T) {
	const keys = 20
	var mended atomic.Bool
	build := delaying(50*time.Millisecond, func(x int) bool { return !mended.Load() && x == 7 })
	opts := Options{Log: natslog.Servers(natslog.Options{URLs: []string{natsServer(t)}, Replicas: 1, AssumeDurable: true}), Name: "stops", Partitions: 4}
	asClient := opts
	asClient.Client = true
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	apps := []*App[delayPorts]{start(t, nil, build, opts), start(t, nil, build, opts), start(t, nil, build, asClient)}
	client := apps[2]
	of := func(k int) int { return client.core.layout.of(0, encoded(t, k)) }
	bad := of(7)
	for k := range keys {
		if err := client.Ports.in.Put(ctx, k, k); err != nil && of(k) != bad {
			t.Fatal(err)
		}
	}
	check := func(apps ...*App[delayPorts]) {
		t.Helper()
		for i, app := range apps {
			var p *PartitionError
			if _, err := app.Ports.out.Await(ctx, 7); !errors.As(err, &p) || p.Partition != bad || !strings.Contains(err.Error(), "no 7") {
				t.Errorf("process %d: Await: %v", i, err)
			}
			for k := range keys {
				if of(k) != bad {
					await(t, app.Ports.out, k, k)
				}
			}
		}
	}
	check(apps...)
	owner := 0
	if apps[1].core.gateway.partitions[bad].isOwned() {
		owner = 1
	}
	if p := new(*PartitionError); !errors.As(apps[owner].Ports.in.Put(ctx, 7, 7), p) || (*p).Partition != bad {
		t.Errorf("Put at the owner: %v", *p)
	}
	if p := new(*PartitionError); !errors.As(client.Ports.in.Put(ctx, 7, 7), p) || (*p).Partition != bad {
		t.Errorf("Put at a client: %v", *p)
	}
	stop(t, apps[owner])
	left := apps[1-owner]
	check(left, client)
	mended.Store(true)
	next := start(t, nil, build, opts)
	stop(t, left)
	for _, app := range []*App[delayPorts]{next, client} {
		for k := range keys {
			await(t, app.Ports.out, k, k)
		}
	}
	stop(t, client)
	stop(t, next)
}

// TestNotRestoredElsewhere has a process take over a partition that it cannot restore. Other processes that
// use it get the error.
func TestNotRestoredElsewhere(t *testing.T) {
	var broken atomic.Bool
	build := delaying(time.Millisecond, func(x int) bool { return broken.Load() && x == 7 })
	opts := Options{Log: natslog.Servers(natslog.Options{URLs: []string{natsServer(t)}, Replicas: 1, AssumeDurable: true}), Name: "restore", Partitions: 4}
	asClient := opts
	asClient.Client = true
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	apps := []*App[delayPorts]{start(t, nil, build, opts), start(t, nil, build, opts)}
	client := start(t, nil, build, asClient)
	bad := client.core.layout.of(0, encoded(t, 7))
	if err := client.Ports.in.Put(ctx, 7, 7); err != nil {
		t.Fatal(err)
	}
	await(t, client.Ports.out, 7, 7)
	owner := 0
	if apps[1].core.gateway.partitions[bad].isOwned() {
		owner = 1
	}
	broken.Store(true)
	abandoned, abandon := context.WithCancel(ctx)
	abandon()
	apps[owner].Stop(abandoned) // without a snapshot
	other := 8
	for client.core.layout.of(0, encoded(t, other)) != bad {
		other++
	}
	for i, app := range []*App[delayPorts]{client, apps[1-owner]} {
		var p *PartitionError
		if _, err := app.Ports.out.Await(ctx, other); !errors.As(err, &p) || p.Partition != bad || !strings.Contains(err.Error(), "no 7") {
			t.Errorf("process %d: Await: %v", i, err)
		}
	}
	stop(t, client)
	stop(t, apps[1-owner])
}

// TestLocationStops has the only partition of a location stop. The location's output returns the error, and
// the other location continues.
func TestLocationStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		build := delaying(time.Second, func(x int) bool { return x == 7 })
		app := start(t, journal.NewMemory(journal.MemoryOptions{Partitions: 4}), build, Options{Partitions: 3})
		for x := range 5 {
			app.Ports.another.Put(t.Context(), x, x)
		}
		for x := range 5 {
			if got, err := app.Ports.late.Next(t.Context()); got != x || err != nil {
				t.Errorf("%v, %v, want %d", got, err, x)
			}
		}
		app.Ports.another.Put(t.Context(), 7, 7)
		if _, err := app.Ports.late.Next(t.Context()); !isStopped(err, 3, 7) {
			t.Errorf("Next: %v", err)
		}
		if err := app.Ports.another.Put(t.Context(), 8, 8); !isStopped(err, 3, 7) {
			t.Errorf("Put: %v", err)
		}
		for k := range 5 {
			app.Ports.in.Put(t.Context(), k, k)
			await(t, app.Ports.out, k, k)
		}
		stop(t, app)
	})
}

// TestLastPartitionStops has the partitions stop one after the other. The flow ends with the last one, or
// with the first if EndOnFailure is set.
func TestLastPartitionStops(t *testing.T) {
	for _, end := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			build := delaying(time.Second, func(x int) bool { return x >= 100 })
			app := start(t, journal.NewMemory(journal.MemoryOptions{Partitions: 4}), build, Options{Partitions: 3, EndOnFailure: end})
			app.Ports.another.Put(t.Context(), 100, 100)
			time.Sleep(2 * time.Second)
			stopped := 1
			for k := 100; k < 200 && app.Err() == nil; k++ {
				if app.Ports.in.Put(t.Context(), k, k) == nil {
					stopped++
					time.Sleep(2 * time.Second)
				}
			}
			<-app.Done()
			want := 4
			if end {
				want = 1
			}
			var step *dataflow.StepError
			if stopped != want || !errors.As(app.Err(), &step) {
				t.Errorf("the flow ended after %d partitions: %v", stopped, app.Err())
			}
			if err := app.Ports.in.Put(t.Context(), 1, 1); !errors.As(err, &step) {
				t.Errorf("Put: %v", err)
			}
		})
	}
}

// TestStopsWhilePut stops a partition whose step waits. A call of Put does not know yet what happened to its
// entry.
func TestStopsWhilePut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, release := make(chan bool), make(chan bool)
		enter := sync.OnceFunc(func() { close(entered) })
		build := delaying(time.Second, func(x int) bool {
			if x == 7 { // also while the partition looks for the record to blame
				enter()
				<-release
			}
			return x == 7
		})
		app := start(t, journal.NewMemory(journal.MemoryOptions{Partitions: 2}), build, Options{Partitions: 1})
		app.Ports.in.Put(t.Context(), 7, 7)
		<-entered
		put := make(chan error)
		go func() { put <- app.Ports.in.Put(t.Context(), 8, 8) }()
		time.Sleep(10 * time.Millisecond)
		close(release)
		if err := <-put; !isStopped(err, 0, 7) || !strings.Contains(err.Error(), "the record is kept") {
			t.Errorf("Put: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := app.Ports.out.Await(ctx, 8); !errors.Is(err, context.Canceled) && !isStopped(err, 0, 7) {
			t.Errorf("Await: %v", err)
		}
		stop(t, app)
	})
}
