package keyedstream

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/port"
)

// Input returns a port with one sender at a time for each key, and the stream of the values
// sent to it, under their keys and in the order in which they were sent. The name appears
// in errors, traces and graphs.
//
// There is no order between keys, so their senders are independent. For any number of
// senders of a key, use [SharedInput] or [RetriedInput]; where the key identifies the
// sender, use [dataflow.SenderInput].
func Input[K comparable, V any, L dataflow.Location](
	at L, name string,
) (*dataflow.KeyedInputPort[K, V], dataflow.KeyedStream[K, V, L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]) {
	location := placeOf(at, "keyedstream.Input").Input("keyedstream.Input")
	in, n := port.NewKeyedInput[K, V](location, engine.NewOp(location, "keyedstream.Input "+name, ""))
	return newKeyedInputPort(in),
		newKeyedStream[K, V, L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce](n)
}

// SharedInput returns a port for any number of senders of each key, and the stream of the
// values they send. The values of a key have no order, since the order of two senders is a
// matter of timing. A program in which arrival decides says so with [AssumeOrder].
func SharedInput[K comparable, V any, L dataflow.Location](
	at L, name string,
) (*dataflow.SharedKeyedInputPort[K, V], dataflow.KeyedStream[K, V, L, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]) {
	location := placeOf(at, "keyedstream.SharedInput").Input("keyedstream.SharedInput")
	in, n := port.NewKeyedInput[K, V](location, engine.NewOp(location, "keyedstream.SharedInput "+name, ""))
	in.Shared(false)
	return newSharedKeyedInputPort(in),
		newKeyedStream[K, V, L, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce](n)
}

// RetriedInput returns a port for any number of senders of each key that may send a value
// more than once, and the stream of the values they send. A sender that got no answer may
// send again. The stream has no order, and operators that would count a repeat do not
// accept it: [Unique] removes repeats, and [AssumeOnce] states why they do no harm.
//
// Where repeats can be seen, the simulator tries them: it delivers some values again.
func RetriedInput[K comparable, V any, L dataflow.Location](
	at L, name string,
) (*dataflow.SharedKeyedInputPort[K, V], dataflow.KeyedStream[K, V, L, bounds.Unbounded, dataflow.NoOrder, dataflow.AtLeastOnce]) {
	location := placeOf(at, "keyedstream.RetriedInput").Input("keyedstream.RetriedInput")
	in, n := port.NewKeyedInput[K, V](location, engine.NewOp(location, "keyedstream.RetriedInput "+name, ""))
	in.Shared(true)
	return newSharedKeyedInputPort(in),
		newKeyedStream[K, V, L, bounds.Unbounded, dataflow.NoOrder, dataflow.AtLeastOnce](n)
}
