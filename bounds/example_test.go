package bounds_test

import (
	"context"
	"strings"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// shout accepts a keyed singleton with any bound. The bound of its result follows from that: see the table of
// [bounds.Mapped].
func shout[B bounds.Mapped[Out], Out bounds.KeyedSingleton](
	names dataflow.KeyedSingleton[string, string, dataflow.Here, B],
) dataflow.KeyedSingleton[string, string, dataflow.Here, Out] {
	return keyedsingleton.Map(names, strings.ToUpper)
}

// In this example a helper repeats the type parameters that the compiler computes. The names of requests never change, so their
// entries can be elements of a stream. The names of the latest visitors change, and Entries does not compile with them.
func Example() {
	dataflow.Local(func(at dataflow.Here) {
		in, requests := keyedsingleton.Input[string, string](at, "requests")
		dataflow.Print(keyedsingleton.Entries(shout(requests))) // bounds.BoundedValue

		_, visits := keyedstream.Input[string, string](at, "visits")
		latest := keyedstream.Reduce(visits, func(last *string, name string) { *last = name })
		shout(latest) // bounds.MonotonicKeys

		in.Put(context.Background(), "request 1", "ann")
	})
	// Output:
	// request 1:ANN
}
