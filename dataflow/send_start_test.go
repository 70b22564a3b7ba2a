package dataflow_test

import (
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
)

// TestSendWhileStarting sends while the flow starts. A port looks at what the start decides only when it may run the location, or
// the race detector reports it.
func TestSendWhileStarting(t *testing.T) {
	for range 20 {
		flow := dataflow.New()
		at := dataflow.At[server](flow)
		in, xs := dataflow.Input[int](at, "in")
		entries, ks := keyedstream.Input[int, int](at, "entries")
		n := 0
		dataflow.ForEach(xs, func(int) { n++ })
		keyedstream.Inspect(ks, func(int) { n++ })
		var sent int
		begun, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for i := range 2000 {
				if in.Send(t.Context(), i) == nil {
					sent++
				}
				if entries.Send(t.Context(), i, i) == nil {
					sent++
				}
				if i == 10 {
					close(begun)
				}
			}
		}()
		<-begun
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		<-done
		in.Close()
		entries.Close()
		if err := app.Wait(); err != nil || n != sent {
			t.Errorf("%d were accepted, and %d came: %v", sent, n, err)
		}
	}
}
