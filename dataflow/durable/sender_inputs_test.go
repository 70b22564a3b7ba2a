package durable

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedstream"
)

// TestSenderOfTwoInputs checks that positions of a sender are tracked for each input: records with the same sender and
// position on two inputs are both taken.
func TestSenderOfTwoInputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type ports struct {
			in  [2]*dataflow.SharedKeyedInputPort[string, int]
			out [2]*dataflow.OutputPort[dataflow.Entry[string, int]]
		}
		app := start(t, journal.NewMemory(journal.MemoryOptions{}), func(f *dataflow.Flow) (p ports) {
			for i, name := range []string{"a", "b"} {
				in, numbers := keyedstream.SharedInput[string, int](dataflow.At[server](f), name)
				p.in[i], p.out[i] = in, keyedstream.Output(numbers, "out "+name)
			}
			return p
		}, Options{})
		for n := 1; n <= 3; n++ {
			for i := range 2 {
				at := []dataflow.Position{{Major: uint64(n)}}
				for range 2 { // the second one is a repeat
					if _, err := app.Ports.in[i].SendBatchAt(t.Context(), "source", at, []string{"k"}, []int{10*n + i}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for i := range 2 {
			for n := 1; n <= 3; n++ {
				if e, err := app.Ports.out[i].Next(ctx); err != nil || e.Value != 10*n+i {
					t.Errorf("input %d gives %v (%v), want %d", i, e, err, 10*n+i)
				}
			}
		}
		stop(t, app)
	})
}
