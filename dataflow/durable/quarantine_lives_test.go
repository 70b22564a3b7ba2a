package durable

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

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
