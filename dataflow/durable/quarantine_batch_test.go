package durable

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

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
