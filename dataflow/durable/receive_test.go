package durable

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestReceive kills a flow while some elements of an output are being handled. After the
// restart these elements are received again, and so are all elements behind them. An element
// is not received again if it and all elements before it were acknowledged.
func TestReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type ports struct {
			in  *dataflow.InputPort[int]
			out *dataflow.OutputPort[int]
		}
		build := func(f *dataflow.Flow) ports {
			in, xs := dataflow.Input[int](dataflow.At[server](f), "in")
			return ports{in, dataflow.Output(xs, "out")}
		}
		log := journal.NewMemory(journal.MemoryOptions{})
		app := start(t, log, build, Options{})
		for x := range 6 { // each in its own step
			if err := app.Ports.in.Send(t.Context(), x); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		for life, given := range [][]int{{0, 1, 2, 3, 4, 5}, {2, 3, 4, 5}, {3, 4, 5}, nil} {
			var got []int
			for range given {
				d, err := app.Ports.out.Receive(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, d.Value)
				if life == 0 && d.Value != 2 && d.Value != 4 || life == 1 && d.Value != 3 || life == 2 {
					d.Ack()
				}
			}
			if !slices.Equal(got, given) {
				t.Errorf("in life %d: %d, want %d", life, got, given)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // until the history has the acks
			if d, err := app.Ports.out.Receive(ctx); err == nil {
				t.Errorf("in life %d: %d once more", life, d.Value)
			}
			cancel()
			log.Crash()
			<-app.Done()
			log = log.Reopen()
			app = start(t, log, build, Options{})
		}
		stop(t, app)
	})
}
