package keyedstream

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/port"
)

// Input returns a port with one sender at a time for each key, and the stream of what is
// sent to it, under the key it is sent with, in that order. The name appears in errors,
// traces and graphs.
//
// Keys have no order between them, so their senders have nothing to do with each other. For
// any number of senders of a key there are [SharedInput] and [RetriedInput], and
// [dataflow.SenderInput] where the key is the sender.
func Input[K comparable, V any, L dataflow.Location](
	at L, name string,
) (*dataflow.KeyedInputPort[K, V], dataflow.KeyedStream[K, V, L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]) {
	site := placeOf(at, "keyedstream.Input").Input("keyedstream.Input")
	in, n := port.NewKeyedInput[K, V](site, engine.NewOp(site, "keyedstream.Input "+name, ""))
	return newKeyedInputPort(in),
		newKeyedStream[K, V, L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce](n)
}

// SharedInput returns a port for any number of senders of each key, and the stream of what
// they send. The values of a key have no order, since which of two senders comes first is a
// matter of timing; a program for which arrival decides says so with [AssumeOrder].
func SharedInput[K comparable, V any, L dataflow.Location](
	at L, name string,
) (*dataflow.SharedKeyedInputPort[K, V], dataflow.KeyedStream[K, V, L, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]) {
	site := placeOf(at, "keyedstream.SharedInput").Input("keyedstream.SharedInput")
	in, n := port.NewKeyedInput[K, V](site, engine.NewOp(site, "keyedstream.SharedInput "+name, ""))
	in.Shared(false)
	return newSharedKeyedInputPort(in),
		newKeyedStream[K, V, L, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce](n)
}

// RetriedInput returns a port for any number of senders of each key that may send a value
// more than once, as one does that has had no answer, and the stream of what they send. It
// has no order, and operators that would count a repeat do not accept it: [Unique] takes
// repeats out, and [AssumeOnce] says why they do no harm.
//
// Where repeats can be seen, the simulator tries them: it takes some values again.
func RetriedInput[K comparable, V any, L dataflow.Location](
	at L, name string,
) (*dataflow.SharedKeyedInputPort[K, V], dataflow.KeyedStream[K, V, L, bounds.Unbounded, dataflow.NoOrder, dataflow.AtLeastOnce]) {
	site := placeOf(at, "keyedstream.RetriedInput").Input("keyedstream.RetriedInput")
	in, n := port.NewKeyedInput[K, V](site, engine.NewOp(site, "keyedstream.RetriedInput "+name, ""))
	in.Shared(true)
	return newSharedKeyedInputPort(in),
		newKeyedStream[K, V, L, bounds.Unbounded, dataflow.NoOrder, dataflow.AtLeastOnce](n)
}
