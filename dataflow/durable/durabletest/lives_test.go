package durabletest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

type livesPorts struct {
	in   *dataflow.KeyedInputPort[string, int]
	outs map[string]*dataflow.EntryOutputPort[string, int]
}

// TestLivesSurvive crashes a flow that forgets keys at every moment. Afterwards each operator has
// the result of the present life of a key, and nothing of an earlier one.
func TestLivesSurvive(t *testing.T) {
	const why = "tested"
	program := Program[livesPorts]{
		Build: func(flow *dataflow.Flow) livesPorts {
			at := dataflow.At[server](flow)
			in, values := keyedstream.Input[string, int](at, "values")
			kept := keyedstream.FirstWithin(values, dataflow.Retain{Keys: 1}, why)
			call := func(ctx context.Context, v int) int {
				select {
				case <-ctx.Done():
					return -v
				case <-time.After(time.Minute):
					return v
				}
			}
			return livesPorts{in, map[string]*dataflow.EntryOutputPort[string, int]{
				"kept":     keyedsingleton.Output(kept, "kept"),
				"odd":      keyedsingleton.Output(keyedsingleton.Filter(kept, func(v int) bool { return v%2 == 1 }), "odd"),
				"late":     keyedsingleton.Output(keyedsingleton.After(kept, time.Minute, why), "late"),
				"answered": keyedsingleton.Output(keyedsingleton.MapAsync(kept, call, keyedsingleton.AsyncOptions{}), "answered"),
				"emitted":  keyedsingleton.Output(slice.EmitRetained(slice.BatchEntries(slice.At(at), kept, why)), "emitted"),
			}}
		},
		Drive: func(ctx context.Context, p livesPorts) error {
			for i, k := range []string{"a", "b", "c", "a"} { // a is forgotten when c comes, b when a comes again
				if err := p.in.SendNumbered(ctx, k, uint64(i/3), 2*i+1); err != nil {
					return err
				}
			}
			return nil
		},
		Check: func(ctx context.Context, p livesPorts) error {
			names := slices.Sorted(maps.Keys(p.outs)) // in an order that is the same in each run
			for _, name := range names {
				out := p.outs[name]
				for _, e := range []dataflow.Entry[string, int]{{Key: "a", Value: 7}, {Key: "c", Value: 5}} {
					k, want := e.Key, e.Value
					got, err := out.Await(ctx, k)
					for i := 0; i < 100 && err == nil && got != want; i++ { // a value of the previous life
						<-time.After(time.Second)
						got, err = out.Await(ctx, k)
					}
					if got != want || err != nil {
						return fmt.Errorf("%s has %d of %s, want %d: %w", name, got, k, want, err)
					}
				}
			}
			for _, name := range names {
				out := p.outs[name]
				soon, cancel := context.WithTimeout(ctx, time.Second)
				got, err := out.Await(soon, "b")
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) {
					return fmt.Errorf("%s has %d of b, which is forgotten: %w", name, got, err)
				}
			}
			return nil
		},
	}
	if runs := Crash(t, program, Options{LostAnswers: true}); runs < 40 {
		t.Errorf("only %d runs", runs)
	}
}
