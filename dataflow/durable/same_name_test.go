package durable

import (
	"errors"
	"strings"
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

// TestTypesOfOneNameChange changes two structs with the same name. One has another field, which is allowed, and a field of the other
// has another name, so that its values would be lost. The test fails if only one of them is compared: which one that is depends on
// the names of their fields.
func TestTypesOfOneNameChange(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{})
	stop(t, start(t, log, paymentsBefore(), Options{}))
	for name, build := range map[string]func(*dataflow.Flow) int{"Amount": amountRenamed(), "Tax": taxRenamed()} {
		log = log.Reopen()
		_, err := Start(t.Context(), build, quiet(Options{Log: journal.Opened{Log: log}}))
		if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("without a line for field %s: %v", name, err)
		}
	}
}

func oneInput[T any]() func(*dataflow.Flow) int {
	return func(f *dataflow.Flow) int {
		_, all := keyedsingleton.Input[int, T](dataflow.At[server](f), "payments")
		keyedsingleton.Output(all, "paid")
		return 0
	}
}

func paymentsBefore() func(*dataflow.Flow) int {
	type payment struct{ Amount int }
	type first = payment
	{
		type payment struct{ Tax string }
		type both struct { // no type arguments: their names have numbers
			First  first
			Second payment
		}
		return oneInput[both]()
	}
}

func amountRenamed() func(*dataflow.Flow) int {
	type payment struct{ Sum int }
	type first = payment
	{
		type payment struct {
			Tax string
			Tip int
		}
		type both struct { // no type arguments: their names have numbers
			First  first
			Second payment
		}
		return oneInput[both]()
	}
}

func taxRenamed() func(*dataflow.Flow) int {
	type payment struct {
		Amount int
		Tip    int
	}
	type first = payment
	{
		type payment struct{ Duty string }
		type both struct { // no type arguments: their names have numbers
			First  first
			Second payment
		}
		return oneInput[both]()
	}
}
