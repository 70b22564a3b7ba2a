package keyedsingleton_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
)

// Ask puts a request and takes its response in one call.
func ExampleAsk() {
	ctx := context.Background()
	flow := dataflow.New()
	in, requests := keyedsingleton.Input[int, string](dataflow.At[Bank](flow), "requests")
	out := keyedsingleton.Output(keyedsingleton.Map(requests, strings.ToUpper), "responses")
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	asker := keyedsingleton.Ask(in, out)
	fmt.Println(asker.Ask(ctx, 1, "hello"))
	fmt.Println(asker.Ask(ctx, 2, "again"))
	_, err = asker.Ask(ctx, 2, "twice")
	fmt.Println(errors.Is(err, dataflow.ErrDuplicateKey), out.Len())
	if err := app.Stop(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// HELLO <nil>
	// AGAIN <nil>
	// true 0
}

// TestAskRefuses checks the errors that Ask returns instead of a response.
func TestAskRefuses(t *testing.T) {
	flow := dataflow.New()
	in, requests := keyedsingleton.Input[float64, int](dataflow.At[Bank](flow), "in")
	out := keyedsingleton.Output(requests, "out")
	asker := keyedsingleton.Ask(in, out)
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := asker.Ask(t.Context(), 1, 5); v != 5 || err != nil {
		t.Errorf("Ask = %d, %v", v, err)
	}
	for _, x := range []struct {
		key  float64
		want error
	}{{1, dataflow.ErrDuplicateKey}, {math.NaN(), dataflow.ErrKey}} {
		if _, err := asker.Ask(t.Context(), x.key, 6); !errors.Is(err, x.want) {
			t.Errorf("Ask of %v returned %v, want %v", x.key, err, x.want)
		}
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := asker.Ask(t.Context(), 2, 6); !errors.Is(err, dataflow.ErrClosed) {
		t.Errorf("Ask of a stopped flow returned %v", err)
	}
}

// TestAskMisuse checks that wrong use panics with a message that names the mistake.
func TestAskMisuse(t *testing.T) {
	flow := dataflow.New()
	in, _ := keyedsingleton.Input[int, int](dataflow.At[Bank](flow), "in")
	_, entries := keyedsingleton.Input[int, int](dataflow.At[Bank](dataflow.New()), "in")
	out := keyedsingleton.Output(entries, "out")
	var none *dataflow.EntryInputPort[int, int]
	var noOutput *dataflow.EntryOutputPort[int, int]
	var unmade dataflow.EntryOutputPort[int, int]
	var zero keyedsingleton.Asker[int, int, int]
	for _, x := range []struct {
		do   func()
		want string
	}{
		{func() { keyedsingleton.Ask(in, out) }, "ports of two flows"},
		{func() { keyedsingleton.Ask(none, out) }, "nil or a zero value"},
		{func() { keyedsingleton.Ask(in, noOutput) }, "nil or a zero value"},
		{func() { keyedsingleton.Ask(in, &unmade) }, "nil or a zero value"},
		{func() { zero.Ask(t.Context(), 1, 1) }, "nil or a zero value"},
	} {
		func() {
			defer func() {
				if v := fmt.Sprint(recover()); !strings.Contains(v, x.want) {
					t.Errorf("it panicked with %q, want %q", v, x.want)
				}
			}()
			x.do()
		}()
	}
}

// TestAskSimulated checks Ask in every schedule, next to entries that others put.
func TestAskSimulated(t *testing.T) {
	sim.Exhaustive(t, func(s *sim.Sim) {
		at := dataflow.At[Bank](s.Flow())
		in, requests := keyedsingleton.Input[int, int](at, "in")
		out := keyedsingleton.Output(keyedsingleton.Map(requests, func(x int) int { return x + 1 }), "out")
		asker := keyedsingleton.Ask(in, out)
		s.Start()
		if err := in.Put(s.Context(), 2, 20); err != nil {
			t.Error(err)
		}
		if v, err := asker.Ask(s.Context(), 1, 10); v != 11 || err != nil {
			t.Errorf("Ask = %d, %v", v, err)
		}
		if _, err := asker.Ask(s.Context(), 2, 10); !errors.Is(err, dataflow.ErrDuplicateKey) {
			t.Errorf("Ask of a key that is there: %v", err)
		}
		if v, err := out.Take(s.Context(), 2); v != 21 || err != nil {
			t.Errorf("Take = %d, %v", v, err)
		}
	})
}
