package dataflow_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// TestSendReturnsItsFailure checks that a send whose own call ran the failed step returns the
// failure, at every kind of input, and that a batch reports how many elements were accepted before.
func TestSendReturnsItsFailure(t *testing.T) {
	type inputs struct {
		plain   *dataflow.InputPort[int]
		keyed   *dataflow.KeyedInputPort[int, int]
		entries *dataflow.EntryInputPort[int, int]
	}
	sends := map[string]func(t *testing.T, in inputs) error{
		"Send":       func(t *testing.T, in inputs) error { return in.plain.Send(t.Context(), 0) },
		"keyed Send": func(t *testing.T, in inputs) error { return in.keyed.Send(t.Context(), 0, 0) },
		"Put":        func(t *testing.T, in inputs) error { return in.entries.Put(t.Context(), 0, 0) },
		"SendBatch": func(t *testing.T, in inputs) error {
			n, err := in.plain.SendBatch(t.Context(), []int{1, 1, 1, 1, 1, 0, 1, 1})
			if n != 4 { // the queue holds four, and the second four were in the failed step
				return fmt.Errorf("%d were taken, and then %w", n, err)
			}
			return err
		},
		"keyed SendBatch": func(t *testing.T, in inputs) error {
			n, err := in.keyed.SendBatch(t.Context(), []int{0, 1, 2, 3, 4, 5, 6, 7}, []int{1, 1, 1, 1, 1, 0, 1, 1})
			if n != 4 {
				return fmt.Errorf("%d were taken, and then %w", n, err)
			}
			return err
		},
		"PutBatch": func(t *testing.T, in inputs) error {
			errs, err := in.entries.PutBatch(t.Context(), []int{0, 1, 0, 2, 3, 4, 5, 6, 7, 3, 8}, []int{1, 1, 9, 1, 1, 1, 0, 1, 1, 1, 1})
			dup := dataflow.ErrDuplicateKey
			if want := []error{nil, nil, dup, nil, nil, err, err, err, err, dup, err}; !slices.Equal(errs, want) {
				return fmt.Errorf("the errors are %v, and then %w", errs, err)
			}
			return err
		},
	}
	for name, send := range sends {
		t.Run(name, func(t *testing.T) {
			flow := dataflow.NewWithOptions(dataflow.Options{Queue: 4})
			at := dataflow.At[server](flow)
			var in inputs
			var s dataflow.Stream[int, server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
			in.plain, s = dataflow.Input[int](at, "plain")
			keyed, ks := keyedstream.Input[int, int](at, "keyed")
			entries, es := keyedsingleton.Input[int, int](at, "entries")
			in.keyed, in.entries = keyed, entries
			dataflow.Map(s, bomb)
			keyedstream.Map(ks, bomb)
			keyedsingleton.Map(es, bomb)
			app := start(t, flow)
			err := send(t, in)
			var step *dataflow.StepError
			if !errors.As(err, &step) || err != app.Err() {
				t.Errorf("it returned %v, the flow ended with %v", err, app.Err())
			}
		})
	}
}

// TestSendOfOthers checks that a sender that leaves its record with a busy location learns only
// that the record was accepted. The sender whose call runs the record, and fails, gets the failure.
func TestSendOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, s := dataflow.Input[int](dataflow.At[server](flow), "numbers")
		busy, release := make(chan bool), make(chan bool)
		dataflow.ForEach(s, func(x int) {
			if x == 1 {
				busy <- true
				<-release
			}
			_ = bomb(x)
		})
		app := start(t, flow)
		first := make(chan error)
		go func() { first <- in.Send(t.Context(), 1) }()
		<-busy
		if err := in.Send(t.Context(), 0); err != nil {
			t.Errorf("what was left with the location: %v", err)
		}
		release <- true
		if err := <-first; err == nil || err != app.Err() {
			t.Errorf("who ran it: %v, the flow ended with %v", err, app.Err())
		}
		if err := in.Send(t.Context(), 2); err == nil || err != app.Err() {
			t.Errorf("a later send: %v", err)
		}
	})
}
