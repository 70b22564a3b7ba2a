package durable

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// TestQuarantinedEndsNoLife has a record that would make the flow forget an entry while a call for
// the entry runs. The flow panics on the record, which goes to quarantine, so the entry remains.
// The call must continue with a context that has not ended.
func TestQuarantinedEndsNoLife(t *testing.T) {
	release := make(chan struct{})
	call := func(ctx context.Context, v int) int {
		select {
		case <-ctx.Done():
			return -v
		case <-release:
			return v
		}
	}
	panics := func(k string, _ int) {
		if k == "bad" {
			panic("no " + k)
		}
	}
	type ports struct {
		in      *dataflow.KeyedInputPort[string, int]
		answers *dataflow.EntryOutputPort[string, int]
	}
	flows := map[string]func(f *dataflow.Flow) ports{
		"MapAsync": func(f *dataflow.Flow) ports {
			in, numbers := keyedstream.Input[string, int](dataflow.At[members](f), "in")
			first := keyedstream.FirstWithin(numbers, keyedstream.Retain{Keys: 1}, "tested") // the third key evicts the first
			answers := keyedsingleton.MapAsync(first, call, keyedsingleton.AsyncOptions{})
			out := keyedsingleton.Output(answers, "answers")
			dataflow.Output(keyedstream.Entries(keyedstream.InspectWithKey(numbers, panics)), "seen")
			return ports{in, out}
		},
		"CallingMachine": func(f *dataflow.Flow) ports {
			in, numbers := keyedstream.Input[string, int](dataflow.At[members](f), "in")
			type turn = keyedstream.CallingTurn[string, int, int, int]
			seen, answers := keyedstream.CallingMachine(numbers, func() int { return 0 },
				func(_ *int, v int, do *turn) {
					if do.Key() == "bad" || v < 0 {
						do.Emit(v)
						do.Forget()
						return
					}
					do.Call(v)
				}, func(*int, keyedstream.Timer, *turn) {},
				keyedstream.Calling(func(ctx context.Context, c keyedstream.Call[string, int]) int { return call(ctx, c.Request) },
					func(_ *int, _, z int, do *turn) { do.Decide(z) }, keyedstream.CallOptions{}), "tested")
			out := keyedsingleton.Output(answers, "answers")
			dataflow.Output(keyedstream.Entries(keyedstream.InspectWithKey(seen, func(_ string, v int) {
				if v == -1 {
					panic("no -1")
				}
			})), "seen")
			return ports{in, out}
		},
	}
	for name, build := range flows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release = make(chan struct{})
				app := start(t, journal.NewMemory(journal.MemoryOptions{}), build, Options{})
				send := func(k string, v int) {
					t.Helper()
					if err := app.Ports.in.Send(t.Context(), k, v); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				send("a", 1)
				send("b", 2)
				if name == "MapAsync" {
					send("bad", 3)
				} else {
					send("a", -1) // would make the flow forget a
				}
				letters, err := app.Quarantine(t.Context())
				if err != nil || len(letters) != 1 {
					t.Fatalf("%d letters in quarantine (%v), want 1", len(letters), err)
				}
				close(release)
				for k, want := range map[string]int{"a": 1, "b": 2} {
					if got, err := app.Ports.answers.Await(t.Context(), k); err != nil || got != want {
						t.Errorf("the answer to %s is %d (%v), want %d", k, got, err, want)
					}
				}
				stop(t, app)
			})
		})
	}
}
