package keyedsingleton

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/port"
)

// Send returns the entries at another location, each once, as it appears. If the other
// is a [dataflow.Cluster], each partition gets the keys that are its own. For the rest it
// is like [dataflow.Send].
//
// Values must be fixed: a value that changes is not a record but many, and the other
// location would see some of them. Send what changes it and fold that there, or send a
// slice.SnapshotEntries. From a Cluster, each key must come from one partition, as the
// keys do by which it was divided.
func Send[K comparable, V any, L, To dataflow.Location, B bounds.FixedValuesLater[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], to To,
) dataflow.KeyedSingleton[K, V, To, Out] {
	const op = "keyedsingleton.Send"
	n, site := engine.Made(engine.KeyedNodeOf(ks), op), placeOf(to, op).Destination(op)
	move := engine.NewOp(site, op, "")
	move.Once = true
	moved := port.KeyedExchange(n, move)
	return newKeyedSingleton[K, V, To, Out](moved)
}
