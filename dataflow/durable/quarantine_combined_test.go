package durable

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// An address is placed by its first name. Its method panics on one with fewer than two names, also on the empty one.
type address string

func (p address) Affinity() string {
	names := strings.Split(string(p), "/")
	_ = names[1]
	return names[0]
}

// TestAffinityPanics has the method Affinity of a key panic that a function made. The record that gave the key is quarantined.
func TestAffinityPanics(t *testing.T) {
	type ports struct {
		in  *dataflow.KeyedInputPort[int, string]
		out *dataflow.EntryOutputPort[address, string]
	}
	build := func(f *dataflow.Flow) ports {
		in, texts := keyedstream.Input[int, string](dataflow.At[members](f), "in")
		byAddress := keyedstream.Rekey(texts, func(_ int, s string) address { return address(s) })
		moved := keyedstream.AssumeOrder(keyedstream.Send(byAddress, dataflow.At[ledgers](f)), "one each")
		return ports{in, keyedsingleton.Output(keyedstream.First(moved), "out")}
	}
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{Partitions: 6})
		app := start(t, log, build, Options{Partitions: 3})
		for i, s := range []string{"a/b", "c/d", "bad", "e/f"} {
			if err := app.Ports.in.Send(t.Context(), i, s); err != nil && s != "bad" {
				t.Error(err)
			}
		}
		for _, s := range []address{"a/b", "c/d", "e/f"} {
			await(t, app.Ports.out, s, string(s))
		}
		synctest.Wait()
		log.Crash()
		<-app.Done()
		app = start(t, log.Reopen(), build, Options{Partitions: 3})
		if letters, err := app.Quarantine(t.Context()); err != nil || len(letters) != 1 || !strings.Contains(letters[0].Reason, "index out of range") {
			t.Errorf("%+v, %v", letters, err)
		}
		stop(t, app)
	})
}

// second returns a time of the tests here, in seconds.
func second(s int) window.Time { return window.Time(s) * window.Time(time.Second) }

// TestAffinityOfMark moves a stream of events by keys whose zero value has no affinity. A mark moves under the zero key.
func TestAffinityOfMark(t *testing.T) {
	type ports struct {
		in     *dataflow.KeyedInputPort[address, int]
		closed *dataflow.EntryOutputPort[window.Key[address], int]
	}
	build := func(f *dataflow.Flow) ports {
		in, seconds := keyedstream.Input[address, int](dataflow.At[server](f), "in")
		events, _ := window.StampKeyed(seconds, second, window.Disorder{}, "sent in order")
		closed, _ := window.Count(keyedstream.Send(events, dataflow.At[members](f)), window.Every(10*time.Second))
		return ports{in, keyedsingleton.Output(closed, "closed")}
	}
	synctest.Test(t, func(t *testing.T) {
		app := start(t, journal.NewMemory(journal.MemoryOptions{Partitions: 4}), build, Options{Partitions: 3})
		for s := 1; s < 40; s += 5 {
			if err := app.Ports.in.Send(t.Context(), "a/b", s); err != nil {
				t.Fatal(err)
			}
		}
		await(t, app.Ports.closed, window.Key[address]{Key: "a/b", Span: window.Span{To: second(10)}}, 2)
		stop(t, app)
	})
}

// TestMarkPassesQuarantinedKey has a function panic on an event of a key, also of the zero key, under which marks move. The windows
// of the other keys continue to close.
func TestMarkPassesQuarantinedKey(t *testing.T) {
	type ports struct {
		in     *dataflow.KeyedInputPort[string, int]
		closed *dataflow.EntryOutputPort[window.Key[string], int]
	}
	for _, bad := range []string{"z", ""} {
		build := func(f *dataflow.Flow) ports {
			in, seconds := keyedstream.Input[string, int](dataflow.At[server](f), "in")
			events, _ := window.StampKeyed(seconds, second, window.Disorder{}, "sent in order")
			moved := keyedstream.InspectWithKey(keyedstream.Send(events, dataflow.At[members](f)), func(k string, _ window.Event[int]) {
				if k == bad {
					panic("bad key")
				}
			})
			closed, _ := window.Count(moved, window.Every(10*time.Second))
			return ports{in, keyedsingleton.Output(closed, "closed")}
		}
		synctest.Test(t, func(t *testing.T) {
			app := start(t, journal.NewMemory(journal.MemoryOptions{Partitions: 2}), build, Options{Partitions: 1})
			for _, e := range []dataflow.Entry[string, int]{{Key: "a", Value: 1}, {Key: bad, Value: 3}, {Key: "a", Value: 15}, {Key: "a", Value: 25}} {
				if err := app.Ports.in.Send(t.Context(), e.Key, e.Value); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			for from := range 2 {
				await(t, app.Ports.closed, window.Key[string]{Key: "a", Span: window.Span{From: second(10 * from), To: second(10*from + 10)}}, 1)
			}
			if letters, err := app.Quarantine(t.Context()); err != nil || len(letters) != 1 || letters[0].Behind != 0 {
				t.Errorf("bad key %q: %+v, %v", bad, letters, err)
			}
			stop(t, app)
		})
	}
}

// TestQuarantinedBatch sends a batch with more bad records than a trial may restore the partition without finding one.
func TestQuarantinedBatch(t *testing.T) {
	type ports struct {
		in  *dataflow.SharedKeyedInputPort[string, int]
		out *dataflow.EntryOutputPort[string, int]
	}
	build := func(f *dataflow.Flow) ports {
		in, vs := keyedstream.SharedInput[string, int](dataflow.At[members](f), "in")
		read := keyedstream.InspectWithKey(keyedstream.AssumeOrder(vs, "each key comes once"), func(k string, v int) {
			if v%5 != 0 {
				panic("cannot read " + k)
			}
		})
		return ports{in, keyedsingleton.Output(keyedstream.First(read), "out")}
	}
	synctest.Test(t, func(t *testing.T) {
		app := start(t, journal.NewMemory(journal.MemoryOptions{}), build, Options{})
		var ks []string
		var vs []int
		for i := range 100 {
			ks, vs = append(ks, fmt.Sprint("k", i)), append(vs, i)
		}
		if n, err := app.Ports.in.SendBatch(t.Context(), ks, vs); n != 100 || err != nil {
			t.Errorf("%d of the batch were sent: %v", n, err)
		}
		for i := 0; i < 100; i += 5 {
			await(t, app.Ports.out, ks[i], i)
		}
		if letters, err := app.Quarantine(t.Context()); err != nil || len(letters) != 80 {
			t.Errorf("%d letters, want 80: %v", len(letters), err)
		}
		stop(t, app)
	})
}

// TestQuarantinedLife quarantines an entry that moves to another location, and has it forgotten before it is retried. It must not
// come back, nor replace the entry of the key's next life.
func TestQuarantinedLife(t *testing.T) {
	type ports struct {
		in          *dataflow.KeyedInputPort[string, int]
		here, there *dataflow.EntryOutputPort[string, int]
	}
	var mended atomic.Bool
	build := func(f *dataflow.Flow) ports {
		in, vs := keyedstream.Input[string, int](dataflow.At[server](f), "in")
		first := keyedstream.FirstWithin(vs, keyedstream.Retain{Keys: 1}, "tested")
		moved := keyedsingleton.Send(first, dataflow.At[ledgers](f))
		byValue := keyedstream.Rekey(keyedsingleton.IntoKeyedStream(moved), func(_ string, v int) int { return v })
		dataflow.Output(keyedstream.Entries(keyedstream.InspectWithKey(byValue, func(k int, _ int) {
			if k == 13 && !mended.Load() {
				panic("bad luck")
			}
		})), "seen")
		return ports{in, keyedsingleton.Output(first, "here"), keyedsingleton.Output(moved, "there")}
	}
	for _, values := range [][]dataflow.Entry[string, int]{
		{{Key: "a", Value: 13}, {Key: "b", Value: 1}, {Key: "c", Value: 5}},
		{{Key: "a", Value: 13}, {Key: "b", Value: 1}, {Key: "c", Value: 5}, {Key: "a", Value: 2}},
	} {
		synctest.Test(t, func(t *testing.T) {
			mended.Store(false)
			app := start(t, journal.NewMemory(journal.MemoryOptions{Partitions: 2}), build, Options{Partitions: 1})
			for _, e := range values {
				if err := app.Ports.in.Send(t.Context(), e.Key, e.Value); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			letters, err := app.Quarantine(t.Context())
			if err != nil || len(letters) != 1 {
				t.Fatalf("%+v, %v", letters, err)
			}
			mended.Store(true)
			if err := app.Retry(t.Context(), letters[0].Partition, letters[0].ID); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			here, is := app.Ports.here.Get("a")
			there, was := app.Ports.there.Get("a")
			if here != there || is != was {
				t.Errorf("a is %d %v where it was made, and %d %v where it was sent", here, is, there, was)
			}
			stop(t, app)
		})
	}
}

// TestConvertedWhileQuarantined upgrades a flow whose quarantine has a record in a type that is converted. The upgrade is refused
// until the program that made the history has handled it.
func TestConvertedWhileQuarantined(t *testing.T) {
	euros := func(cents int) float64 { return float64(cents) / 100 }
	upgrade := Options{Upgrade: []Change{
		Convert("input in", euros), Convert("output out", euros),
		Convert("keyedstream.First[table(string,int)]@{keyedstream.Inspect@{input in}}", euros),
	}}
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		var mended atomic.Bool
		inCents := priced(func(cents int) bool { return cents == 500 && !mended.Load() })
		app := start(t, log, inCents, Options{})
		for k, cents := range map[string]int{"good": 100, "bad": 500} {
			if err := app.Ports.in.Send(t.Context(), k, cents); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		stop(t, app)
		inEuros := priced(func(float64) bool { return false })
		upgrade.Log = journal.Opened{Log: log.Reopen()}
		if _, err := Start(t.Context(), inEuros, quiet(upgrade)); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "are in quarantine (letter 1)") {
			t.Fatalf("with a letter: %v", err)
		}
		mended.Store(true)
		app = start(t, log.Reopen(), inCents, Options{})
		if err := app.Retry(t.Context(), 0, 1); err != nil {
			t.Error(err)
		}
		stop(t, app)
		upgraded := start(t, log.Reopen(), inEuros, upgrade)
		await(t, upgraded.Ports.out, "good", 1)
		await(t, upgraded.Ports.out, "bad", 5)
		stop(t, upgraded)
	})
}

type pricedPorts[V any] struct {
	in  *dataflow.KeyedInputPort[string, V]
	out *dataflow.EntryOutputPort[string, V]
}

// priced returns a flow that remembers the first value of each key, and panics on bad ones.
func priced[V any](bad func(V) bool) func(f *dataflow.Flow) pricedPorts[V] {
	return func(f *dataflow.Flow) pricedPorts[V] {
		in, vs := keyedstream.Input[string, V](dataflow.At[server](f), "in")
		read := keyedstream.Inspect(vs, func(v V) {
			if bad(v) {
				panic("bad value")
			}
		})
		return pricedPorts[V]{in, keyedsingleton.Output(keyedstream.First(read), "out")}
	}
}

// TestCallOfEndedLife has a call that returns when the life of its key is over. The life ends, and the flow stops before the call
// has returned. A flow that continues the history does not make the call again.
func TestCallOfEndedLife(t *testing.T) {
	type ports struct {
		in  *dataflow.KeyedInputPort[string, string]
		out *dataflow.EntryOutputPort[string, string]
	}
	var running atomic.Int32
	lease := func(ctx context.Context, name string) string {
		if name == "lease" {
			running.Add(1)
			defer running.Add(-1)
			<-ctx.Done()
			time.Sleep(time.Second) // the answer comes after the end of the flow
		}
		return name
	}
	flows := map[string]func(f *dataflow.Flow) ports{
		"CallingMachine": func(f *dataflow.Flow) ports {
			type turn = keyedstream.CallingTurn[string, string, string, string]
			in, names := keyedstream.Input[string, string](dataflow.At[server](f), "in")
			_, answers := keyedstream.CallingMachine(names, func() int { return 0 },
				func(_ *int, name string, do *turn) {
					if name == "end" {
						do.Forget()
					} else {
						do.Call(name)
					}
				}, func(*int, keyedstream.Timer, *turn) {},
				keyedstream.Calling(func(ctx context.Context, c keyedstream.Call[string, string]) string { return lease(ctx, c.Request) },
					func(_ *int, _, s string, do *turn) { do.Decide(s) }, keyedstream.CallOptions{Concurrency: 1}), "tested")
			return ports{in, keyedsingleton.Output(answers, "out")}
		},
		"MapAsync": func(f *dataflow.Flow) ports {
			type turn = keyedstream.TimedTurn[string, string, string]
			in, names := keyedstream.Input[string, string](dataflow.At[server](f), "in")
			_, first := keyedstream.TimedMachine(names, func() int { return 0 },
				func(_ *int, name string, do *turn) {
					if name == "end" {
						do.Forget()
					} else {
						do.Decide(name)
					}
				}, func(*int, keyedstream.Timer, *turn) {}, "tested")
			return ports{in, keyedsingleton.Output(keyedsingleton.MapAsync(first, lease, keyedsingleton.AsyncOptions{Concurrency: 1}), "out")}
		},
	}
	for name, build := range flows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := journal.NewMemory(journal.MemoryOptions{})
				app := start(t, log, build, Options{SnapshotBytes: 1})
				for _, s := range []string{"lease", "end"} {
					if err := app.Ports.in.Send(t.Context(), "k", s); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				stop(t, app)
				time.Sleep(time.Hour)
				app = start(t, log.Reopen(), build, Options{SnapshotBytes: 1})
				time.Sleep(time.Hour)
				if n := running.Load(); n != 0 {
					t.Errorf("%d calls of an ended life run", n)
				}
				if err := app.Ports.in.Send(t.Context(), "other", "short"); err != nil {
					t.Fatal(err)
				}
				await(t, app.Ports.out, "other", "short")
				stop(t, app)
				time.Sleep(2 * time.Second)
			})
		})
	}
}
