package window

import (
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/windows"
)

// Within says which events of the right side of a join match one of the left: those from Before
// its time to After its time, both included.
type Within struct{ Before, After time.Duration }

// Join returns the pairs of a and b under one key whose times are near each other, each once, at
// the later of the two times.
//
// An event is remembered until the mark of the other side says that no pair can follow. So if one
// side is silent, all events of the other are remembered.
func Join[K comparable, V, W any, L dataflow.Location, O1, O2 dataflow.Order, R dataflow.NoRetries](
	a dataflow.KeyedStream[K, Event[V], L, bounds.Unbounded, O1, R], b dataflow.KeyedStream[K, Event[W], L, bounds.Unbounded, O2, R], near Within,
) dataflow.KeyedStream[K, Event[dataflow.Pair[V, W]], L, bounds.Unbounded, dataflow.NoOrder, R] {
	n, op := engine.Read(engine.KeyedNodeOf(a), "window.Join")
	m := engine.Made(engine.KeyedNodeOf(b), op.Name)
	p := pairing[Event[V], Event[W], Event[dataflow.Pair[V, W]]](op.Name, near)
	p.Both = func(x *Event[V], y *Event[W], t int64) Event[dataflow.Pair[V, W]] {
		return Event[dataflow.Pair[V, W]]{Time(t), dataflow.Pair[V, W]{First: x.Value, Second: y.Value}}
	}
	return newKeyedStream[K, Event[dataflow.Pair[V, W]], L, bounds.Unbounded, dataflow.NoOrder, R](
		windows.Join(n, m, op, timeOf[V], timeOf[W], p))
}

// LeftJoin is [Join] that also returns each event of a without a pair. It does so once no pair
// can follow, at the last time at which one could have come.
func LeftJoin[K comparable, V, W any, L dataflow.Location, O1, O2 dataflow.Order, R dataflow.NoRetries](
	a dataflow.KeyedStream[K, Event[V], L, bounds.Unbounded, O1, R], b dataflow.KeyedStream[K, Event[W], L, bounds.Unbounded, O2, R], near Within,
) dataflow.KeyedStream[K, Event[dataflow.Pair[V, dataflow.Maybe[W]]], L, bounds.Unbounded, dataflow.NoOrder, R] {
	n, op := engine.Read(engine.KeyedNodeOf(a), "window.LeftJoin")
	m := engine.Made(engine.KeyedNodeOf(b), op.Name)
	type result = Event[dataflow.Pair[V, dataflow.Maybe[W]]]
	p := pairing[Event[V], Event[W], result](op.Name, near)
	p.Both = func(x *Event[V], y *Event[W], t int64) result { return maybePair(Time(t), x, y) }
	p.Alone = func(x *Event[V], t int64) result { return maybePair[V, W](Time(t), x, nil) }
	return newKeyedStream[K, result, L, bounds.Unbounded, dataflow.NoOrder, R](
		windows.Join(n, m, op, timeOf[V], timeOf[W], p))
}

// AsOf returns each event of a, in the order of their times, with the newest value of b that is
// not after it, if there is one.
//
// The newest event of b under each key is remembered forever. If keys end, put an event that ends
// them into b and use a fold instead.
func AsOf[K comparable, V, W any, L dataflow.Location, O1, O2 dataflow.Ordered, R dataflow.NoRetries](
	a dataflow.KeyedStream[K, Event[V], L, bounds.Unbounded, O1, R], b dataflow.KeyedStream[K, Event[W], L, bounds.Unbounded, O2, R],
) dataflow.KeyedStream[K, Event[dataflow.Pair[V, dataflow.Maybe[W]]], L, bounds.Unbounded, dataflow.TotalOrder, R] {
	n, op := engine.Read(engine.KeyedNodeOf(a), "window.AsOf")
	m := engine.Made(engine.KeyedNodeOf(b), op.Name)
	return newKeyedStream[K, Event[dataflow.Pair[V, dataflow.Maybe[W]]], L, bounds.Unbounded, dataflow.TotalOrder, R](
		windows.AsOf(n, m, op, timeOf[V], timeOf[W], func(x *Event[V], y *Event[W]) Event[dataflow.Pair[V, dataflow.Maybe[W]]] {
			return maybePair(x.At, x, y)
		}))
}

func maybePair[V, W any](t Time, x *Event[V], y *Event[W]) Event[dataflow.Pair[V, dataflow.Maybe[W]]] {
	p := dataflow.Pair[V, dataflow.Maybe[W]]{First: x.Value}
	if y != nil {
		p.Second = dataflow.Maybe[W]{Value: y.Value, OK: true}
	}
	return Event[dataflow.Pair[V, dataflow.Maybe[W]]]{t, p}
}

func pairing[V, W, U any](op string, near Within) windows.Pairing[V, W, U] {
	notNegative(op, "time Before", near.Before)
	notNegative(op, "time After", near.After)
	return windows.Pairing[V, W, U]{Before: int64(near.Before), After: int64(near.After)}
}
