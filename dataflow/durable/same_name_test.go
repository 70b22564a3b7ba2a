package durable

import (
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
)

// A half has two type arguments, which may have the same name.
type half[A, B any] struct {
	First  A
	Second B
}

// TestTypesOfOneName restarts a program in which an operator has two structs with the same name, as types
// of two functions or packages may have. Each must be compared with itself, so the program counts as
// unchanged.
func TestTypesOfOneName(t *testing.T) {
	type payment struct{ Amount int }
	type first = payment
	{
		type payment struct{ Tax string }
		type both = half[first, payment]
		type ports struct {
			in  *dataflow.EntryInputPort[int, both]
			out *dataflow.EntryOutputPort[int, both]
		}
		build := func(f *dataflow.Flow) ports {
			in, all := keyedsingleton.Input[int, both](dataflow.At[members](f), "payments")
			return ports{in, keyedsingleton.Output(all, "paid")}
		}
		log := journal.NewMemory(journal.MemoryOptions{})
		for k := range 3 {
			app := start(t, log, build, Options{Partitions: 1})
			want := both{first{k}, payment{"some"}}
			if err := app.Ports.in.Put(t.Context(), k, want); err != nil {
				t.Fatal(err)
			}
			if got, err := app.Ports.out.Await(t.Context(), k); err != nil || got != want {
				t.Errorf("%d is %v, %v", k, got, err)
			}
			stop(t, app)
			log = log.Reopen()
		}
	}
}
