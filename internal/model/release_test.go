package model

import (
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/slice"
)

// TestReleaseAfterTheCut reads an output from within a slice. It checks that a step publishes
// its outputs only after all slices have run: a reader that sees one output finds all results
// of the same step.
func TestReleaseAfterTheCut(t *testing.T) {
	flow := dataflow.New()
	at := dataflow.At[here](flow)
	in, requests := keyedsingleton.Input[int, int](at, "requests")
	acks := keyedsingleton.Output(requests, "acks")
	early, runs := 0, 0
	keyedsingleton.InspectWithKey(slice.BatchEntries(slice.At(at), requests, "each is looked at alone"), func(k, _ int) {
		runs++
		if _, ok := acks.Get(k); ok {
			early++
		}
	})
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	for k := range 3 {
		if err := in.Put(t.Context(), k, k); err != nil {
			t.Fatal(err)
		}
		if _, ok := acks.Get(k); !ok {
			t.Errorf("%d is not acknowledged after its step", k)
		}
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if early > 0 || runs != 3 {
		t.Errorf("%d of %d requests were acknowledged before they were handled", early, runs)
	}
}
