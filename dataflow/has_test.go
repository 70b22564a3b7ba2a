package dataflow_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
)

// TestHas checks Has for keys that were put, that wait to be handled, and that were never
// put.
func TestHas(t *testing.T) {
	flow := dataflow.New()
	in, entries := keyedsingleton.Input[string, int](dataflow.At[server](flow), "in")
	busy, free := make(chan struct{}), make(chan struct{})
	out := keyedsingleton.Output(keyedsingleton.Map(entries, func(x int) int {
		if x == 0 {
			close(busy)
			<-free
		}
		return x
	}), "out")
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	want := func(key string, want bool) {
		t.Helper()
		if got, err := in.Has(t.Context(), key); got != want || err != nil {
			t.Errorf("Has(%q) = %t, %v; want %t", key, got, err, want)
		}
	}
	want("slow", false)
	var sending sync.WaitGroup
	sending.Go(func() { in.Put(context.Background(), "slow", 0) })
	<-busy
	want("slow", true)
	want("next", false)
	if err := in.Put(t.Context(), "next", 1); err != nil { // waits behind the first one
		t.Fatal(err)
	}
	if _, there := out.Get("next"); there {
		t.Error("it was handled, though the location is busy")
	}
	want("next", true)
	close(free)
	sending.Wait()
	for i := range 8 {
		sending.Go(func() {
			for j := range 1000 {
				key := fmt.Sprint(i, j)
				if err := in.Put(t.Context(), key, 1); err != nil {
					t.Error(err)
				}
				want(key, true)
				want(key+"?", false)
			}
		})
	}
	sending.Wait()
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("slow", true)
	want("never", false)
}
