package durable

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedstream"
)

type readPorts struct {
	in  *dataflow.SharedKeyedInputPort[string, int]
	out *dataflow.OutputPort[dataflow.Entry[string, int]]
}

func readCluster(f *dataflow.Flow) readPorts {
	in, numbers := keyedstream.SharedInput[string, int](dataflow.At[members](f), "numbers")
	return readPorts{in, keyedstream.Output(numbers, "out")}
}

// TestReadsAreStopped checks, for each partition, that elements acknowledged before an orderly stop do
// not come again and all others do.
func TestReadsAreStopped(t *testing.T) {
	for _, acknowledge := range []int{0, 1, 39, 40} {
		synctest.Test(t, func(t *testing.T) {
			log := journal.NewMemory(journal.MemoryOptions{Partitions: 4})
			app := start(t, log, readCluster, Options{Partitions: 4})
			for i := range 40 {
				if err := app.Ports.in.Send(t.Context(), fmt.Sprint("k", i), i); err != nil {
					t.Fatal(err)
				}
			}
			handled := map[int]bool{}
			for i := range 40 {
				m, err := app.Ports.out.Receive(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if i < acknowledge {
					handled[m.Value.Value] = true
					m.Ack()
				}
			}
			stop(t, app)
			app = start(t, log.Reopen(), readCluster, Options{Partitions: 4})
			for range 40 - acknowledge {
				e, err := app.Ports.out.Next(t.Context())
				if err != nil || handled[e.Value] {
					t.Fatalf("%v comes again (%v)", e, err)
				}
				handled[e.Value] = true
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if e, err := app.Ports.out.Next(ctx); err == nil {
				t.Errorf("%v comes again", e)
			}
			stop(t, app)
		})
	}
}
