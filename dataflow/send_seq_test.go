package dataflow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
)

// SendSeq sends a sequence without collecting it in a slice.
func ExampleInputPort_SendSeq() {
	ctx := context.Background()
	flow := dataflow.New()
	in, numbers := dataflow.Input[int](dataflow.At[server](flow), "numbers")
	sum := 0
	dataflow.ForEach(numbers, func(x int) { sum += x })
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	n, err := in.SendSeq(ctx, func(yield func(int) bool) {
		for x := range 1000 {
			if !yield(x) {
				return
			}
		}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	in.Close()
	fmt.Println(n, sum, app.Wait())
	// Output: 1000 499500 <nil>
}

// TestSendSeq sends sequences of all lengths around the sizes of its batches.
func TestSendSeq(t *testing.T) {
	for n := range 200 {
		flow := dataflow.New()
		in, xs := dataflow.Input[int](dataflow.At[server](flow), "in")
		var got []int
		dataflow.ForEach(xs, func(x int) { got = append(got, x) })
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]int, n)
		for i := range want {
			want[i] = i * i
		}
		if sent, err := in.SendSeq(t.Context(), slices.Values(want)); sent != n || err != nil {
			t.Fatalf("SendSeq of %d = %d, %v", n, sent, err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("of %d came %v", n, got)
		}
		in.Close()
		if err := app.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSendSeqStops checks that SendSeq reports how many elements were accepted before a function
// panicked, and stops reading the sequence.
func TestSendSeqStops(t *testing.T) {
	flow := dataflow.New()
	in, xs := dataflow.Input[int](dataflow.At[server](flow), "in")
	dataflow.ForEach(xs, func(x int) {
		if x == 100 {
			panic("no more")
		}
	})
	if _, err := dataflow.Start(t.Context(), flow); err != nil {
		t.Fatal(err)
	}
	asked := 0
	n, err := in.SendSeq(t.Context(), func(yield func(int) bool) {
		for x := range 1000 {
			if asked++; !yield(x) {
				return
			}
		}
	})
	var failed *dataflow.StepError
	if n != 64 || asked != 128 || !errors.As(err, &failed) {
		t.Errorf("SendSeq = %d, %v after %d elements; want 64 accepted of 128", n, err, asked)
	}
	if n, err := in.SendSeq(t.Context(), slices.Values([]int{1})); n != 0 || !errors.As(err, &failed) {
		t.Errorf("SendSeq to a flow that failed = %d, %v", n, err)
	}
}

// TestSendSeqGoesOn checks that a sequence which does not stop when it is told to panics, as it would in a loop with range, and that
// nothing that it gives is sent.
func TestSendSeqGoesOn(t *testing.T) {
	flow := dataflow.New()
	in, xs := dataflow.Input[int](dataflow.At[server](flow), "in")
	entries, ks := keyedstream.Input[int, int](dataflow.At[server](flow), "entries")
	came := 0
	dataflow.ForEach(xs, func(int) { came++ })
	keyedstream.Inspect(ks, func(int) { came++ })
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	defer app.Wait()
	in.Close() // so that the first batch is refused
	entries.Close()
	for name, send := range map[string]func(given *int) (int, error){
		"dataflow: InputPort.SendSeq": func(given *int) (int, error) {
			return in.SendSeq(t.Context(), func(yield func(int) bool) {
				for range 1000 {
					*given++
					yield(*given)
				}
			})
		},
		"dataflow: KeyedInputPort.SendSeq": func(given *int) (int, error) {
			return entries.SendSeq(t.Context(), func(yield func(int, int) bool) {
				for range 1000 {
					*given++
					yield(*given, *given)
				}
			})
		},
	} {
		given := 0
		func() {
			defer func() {
				want := name + ": the sequence gave another element after it had been told to stop"
				if p := fmt.Sprint(recover()); !strings.HasPrefix(p, want) {
					t.Errorf("%s ended with %q, want %q", name, p, want)
				}
			}()
			n, err := send(&given)
			t.Errorf("SendSeq = %d, %v", n, err)
		}()
		if given != 65 || came != 0 {
			t.Errorf("%s: %d elements were given, and %d came; want 65 and none", name, given, came)
		}
	}
	// The sequence may also go on after it has returned.
	var late func(int) bool
	if _, err := in.SendSeq(t.Context(), func(yield func(int) bool) { late = yield }); err != nil {
		t.Errorf("SendSeq of nothing = %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("an element after the end of the sequence did not panic")
		}
	}()
	late(1)
}
