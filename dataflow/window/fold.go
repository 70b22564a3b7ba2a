package window

import (
	"cmp"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/claims"
	"github.com/millrace/millrace/internal/engine/windows"
)

// Fold folds the events of each key in each span of shape, in the order in which they come. To
// fold them in the order of their times, put [Sort] before it.
//
// A span is closed for good when the mark has reached its end. Its aggregate then leaves open,
// which holds the spans that are not closed, and becomes an entry of closed, which never changes.
// At each cut of a slice a key is in one of the two. Nothing of a closed span is remembered. A
// span without events does not exist.
//
// An entry of open is the aggregate itself: a step that changes memory that the aggregate points
// to also changes what readers have read. The cost is one table probe for each event and span.
func Fold[K comparable, V, A any, L dataflow.Location, O dataflow.Ordered, R dataflow.NoRetries](
	ks dataflow.KeyedStream[K, Event[V], L, bounds.Unbounded, O, R], shape Shape, init func() A, step func(*A, V),
) (closed dataflow.KeyedSingleton[Key[K], A, L, bounds.BoundedValue], open dataflow.KeyedSingleton[Key[K], A, L, bounds.Unbounded]) {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "window.Fold", init, step)
	c, o := fold(n, op, shape, init, func(acc *A, e *Event[V]) { step(acc, e.Value) })
	return newKeyedSingleton[Key[K], A, L, bounds.BoundedValue](c), newKeyedSingleton[Key[K], A, L, bounds.Unbounded](o)
}

// FoldCommutative is [Fold] for events in any order. The proof says why step gives the same
// aggregate in every order.
func FoldCommutative[K comparable, V, A any, L dataflow.Location, O dataflow.Order, R dataflow.NoRetries](
	ks dataflow.KeyedStream[K, Event[V], L, bounds.Unbounded, O, R], shape Shape, init func() A, step func(*A, V), why dataflow.Proof,
) (closed dataflow.KeyedSingleton[Key[K], A, L, bounds.BoundedValue], open dataflow.KeyedSingleton[Key[K], A, L, bounds.Unbounded]) {
	n, op := engine.ReadProved(engine.KeyedNodeOf(ks), "window.FoldCommutative", why, init, step)
	engine.Permuted(&n.Head)
	checked := claims.Commutative(op, step)
	c, o := fold(n, op, shape, init, func(acc *A, e *Event[V]) { checked(acc, e.Value) })
	return newKeyedSingleton[Key[K], A, L, bounds.BoundedValue](c), newKeyedSingleton[Key[K], A, L, bounds.Unbounded](o)
}

// Count counts the events of each key in each span; see [Fold].
func Count[K comparable, V any, L dataflow.Location, O dataflow.Order, R dataflow.NoRetries](
	ks dataflow.KeyedStream[K, Event[V], L, bounds.Unbounded, O, R], shape Shape,
) (closed dataflow.KeyedSingleton[Key[K], int, L, bounds.BoundedValue], open dataflow.KeyedSingleton[Key[K], int, L, bounds.Unbounded]) {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "window.Count")
	c, o := fold(n, op, shape, func() int { return 0 }, func(n *int, _ *Event[V]) { *n++ })
	return newKeyedSingleton[Key[K], int, L, bounds.BoundedValue](c), newKeyedSingleton[Key[K], int, L, bounds.Unbounded](o)
}

func fold[K comparable, V, A any](n *engine.KeyedNode[K, Event[V]], op *engine.Op, shape Shape, init func() A, step func(*A, *Event[V])) (closed, open *engine.KeyedNode[Key[K], A]) {
	return windows.Fold(n, op, timeOf[V], shape.spans(op.Name), init, step, keyOf[K])
}

func keyOf[K comparable](k K, from, to int64) Key[K] { return Key[K]{k, Span{Time(from), Time(to)}} }

// Closed returns the closed aggregates as events, each at the last instant of its span, so that
// minutes can be folded into hours: the last minute before eleven is in the hour before eleven.
// The events of a key are in the order of their times, and of two spans with the same end the
// one that began first comes first. Nothing is late, since the events have the mark of closed.
func Closed[K comparable, A any, L dataflow.Location](
	closed dataflow.KeyedSingleton[Key[K], A, L, bounds.BoundedValue],
) dataflow.KeyedStream[K, Event[A], L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce] {
	n, op := engine.Read(engine.KeyedNodeOf(closed), "window.Closed")
	return newKeyedStream[K, Event[A], L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce](
		windows.Entries(n, op, func(w *Key[K]) int64 { return int64(w.Span.To - 1) }, func(a, b *Key[K]) int { return cmp.Compare(a.Span.From, b.Span.From) },
			func(w Key[K], a A) (K, Event[A]) { return w.Key, Event[A]{w.Span.To - 1, a} }))
}

// Retain returns the entries of closed and forgets each when the mark is more than after past the
// end of its span. Outputs, counts and calls made from the entry forget it too. So the memory for
// closed spans is bounded, although closed itself keeps each for good. It takes no reason, since
// the mark decides. At the end of time nothing is forgotten.
//
// If the mark jumps, an output of the result may drop an entry before it is read. A caller that
// waits for a key when its span is closed does receive it. To see every span, read
// keyedsingleton.Entries of closed.
//
// A negative after panics. Retain keeps the keys of its present entries.
func Retain[K comparable, A any, L dataflow.Location](
	closed dataflow.KeyedSingleton[Key[K], A, L, bounds.BoundedValue], after time.Duration,
) dataflow.KeyedSingleton[Key[K], A, L, bounds.RetainedValue] {
	n, op := engine.Read(engine.KeyedNodeOf(closed), "window.Retain")
	if after < 0 {
		engine.Misuse(op.Name, "after is %v", after)
	}
	return newKeyedSingleton[Key[K], A, L, bounds.RetainedValue](windows.Retain(n, op, func(w Key[K]) int64 { return int64(w.Span.To) }, int64(after)))
}
