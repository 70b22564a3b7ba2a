package keyedsingleton

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/port"
)

// Send returns the entries at another location, each once, when it appears. If the other
// is a [dataflow.Cluster], each partition receives the keys that belong to it. Otherwise
// it is like [dataflow.Send].
//
// Values must be fixed: a changing value is many records, and the other location would
// see some of them. Send the changes and fold them there, or send a
// slice.SnapshotEntries. From a Cluster, each key must come from one partition, which is
// true of the keys by which it was divided.
func Send[K comparable, V any, L, To dataflow.Location, B bounds.FixedValuesLater[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], to To,
) dataflow.KeyedSingleton[K, V, To, Out] {
	const op = "keyedsingleton.Send"
	n, location := engine.Made(engine.KeyedNodeOf(ks), op), placeOf(to, op).Destination(op)
	move := engine.NewOp(location, op, "")
	move.Once = true
	moved := port.KeyedExchange(n, move)
	return newKeyedSingleton[K, V, To, Out](moved)
}
