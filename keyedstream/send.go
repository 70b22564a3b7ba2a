package keyedstream

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/port"
)

// Send returns the values of each key at another location, in the order that they have
// within the key. If the other is a [dataflow.Cluster], each partition receives the keys
// that belong to it. Otherwise it is like [dataflow.Send].
//
// Values from a Cluster keep their order only if each key is in one partition, which is
// true of the keys by which it was divided. Keys made there with [dataflow.KeyBy] or
// [Rekey] may be in several.
func Send[K comparable, V any, L, To dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], to To,
) dataflow.KeyedStream[K, V, To, bounds.Unbounded, O, R] {
	const op = "keyedstream.Send"
	n, location := engine.Made(engine.KeyedNodeOf(ks), op), placeOf(to, op).Destination(op)
	move := engine.NewOp(location, op, "")
	move.Shuffled = unordered[O]()
	return newKeyedStream[K, V, To, bounds.Unbounded, O, R](port.KeyedExchange(n, move))
}

// Divide returns, for each member, the values of the keys that belong to it, in the order
// that they have within the key. Each key belongs to one member, which depends only on the
// key and the number of members for as long as the process lives. So streams that are
// divided among the same members meet there key by key. If ks is at one of the members, the
// values of that member stay there and are not moved.
//
// A batch costs a hash and a copy for each value, and one lock for each other member. That
// pays from some 30 ns of work for each value. Otherwise Divide is like [Send]; see
// [dataflow.Members].
func Divide[K comparable, V any, L, To dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], members []To,
) []dataflow.KeyedStream[K, V, To, bounds.Unbounded, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Divide")
	op.Shuffled = unordered[O]()
	if len(members) == 0 {
		engine.Misuse(op.Name, "there are no members: nobody would get anything")
	}
	locations := make([]*engine.Location, len(members))
	for i, to := range members {
		locations[i] = placeOf(to, op.Name).Destination(op.Name)
	}
	all := make([]dataflow.KeyedStream[K, V, To, bounds.Unbounded, O, R], len(members))
	for i, part := range port.KDivide(n, op, locations) {
		all[i] = newKeyedStream[K, V, To, bounds.Unbounded, O, R](part)
	}
	return all
}

// unordered reports whether the values of a key have no order.
func unordered[O dataflow.Order]() bool {
	_, ordered := any(*new(O)).(dataflow.TotalOrder)
	return !ordered
}
