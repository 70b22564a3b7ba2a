package window

import (
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/claims"
	"github.com/millrace/millrace/internal/engine/windows"
)

// Sort returns events in the order of their times. Events of the same time stay in the order in
// which they came. An event leaves when the mark is past its time, so for operators after Sort
// the slack costs nothing more.
func Sort[T any, L dataflow.Location, O dataflow.Ordered, R dataflow.Retries](
	events dataflow.Stream[Event[T], L, bounds.Unbounded, O, R],
) dataflow.Stream[Event[T], L, bounds.Unbounded, dataflow.TotalOrder, R] {
	n, op := engine.Read(engine.NodeOf(events), "window.Sort")
	return newStream[Event[T], L, bounds.Unbounded, dataflow.TotalOrder, R](windows.Sort(n, op, timeOf[T], nil))
}

// SortBy is [Sort] for events in no order, such as merged ones. Events of the same time are in
// the order of tie, which returns a negative number if a comes before b. The proof says that
// events that tie treats as equal cannot be distinguished.
func SortBy[T any, L dataflow.Location, O dataflow.Order, R dataflow.Retries](
	events dataflow.Stream[Event[T], L, bounds.Unbounded, O, R], tie func(a, b T) int, why dataflow.Proof,
) dataflow.Stream[Event[T], L, bounds.Unbounded, dataflow.TotalOrder, R] {
	n, op := engine.ReadProved(engine.NodeOf(events), "window.SortBy", why, tie)
	engine.Permuted(&n.Head)
	checked := claims.Distinct(op, tie)
	return newStream[Event[T], L, bounds.Unbounded, dataflow.TotalOrder, R](
		windows.Sort(n, op, timeOf[T], func(a, b *Event[T]) int { return checked(a.Value, b.Value) }))
}

// Trailing returns each event together with an aggregate of the events of its key in the time
// size that ends with it, in the order of their times. The aggregate is made by add and drop.
// An event that is exactly size older is no longer in it.
//
// The function drop undoes add. With floating-point numbers it does so only approximately, and
// a sum drifts until a key has been quiet for the time size: use integers. After that time a
// key costs nothing.
func Trailing[K comparable, V, A any, L dataflow.Location, O dataflow.Ordered, R dataflow.NoRetries](
	ks dataflow.KeyedStream[K, Event[V], L, bounds.Unbounded, O, R], size time.Duration, init func() A, add, drop func(*A, V),
) dataflow.KeyedStream[K, Event[dataflow.Pair[V, A]], L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "window.Trailing", init, add, drop)
	positive(op.Name, "size", size)
	out := windows.Trailing(n, op, timeOf[V], int64(size), init,
		func(acc *A, e *Event[V]) { add(acc, e.Value) },
		func(acc *A, e *Event[V]) { drop(acc, e.Value) },
		func(e *Event[V], acc A) Event[dataflow.Pair[V, A]] {
			return With(*e, dataflow.Pair[V, A]{First: e.Value, Second: acc})
		})
	return newKeyedStream[K, Event[dataflow.Pair[V, A]], L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce](out)
}

// Unique returns each event of a key once: events of the same time and value are one. It
// remembers an event until the mark is past it, since a repeat after that is late. A
// negative zero comes out as the zero that it is equal to.
func Unique[K, V comparable, L dataflow.Location, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, Event[V], L, bounds.Unbounded, O, R],
) dataflow.KeyedStream[K, Event[V], L, bounds.Unbounded, O, dataflow.ExactlyOnce] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "window.Unique")
	return newKeyedStream[K, Event[V], L, bounds.Unbounded, O, dataflow.ExactlyOnce](windows.Unique(n, op, timeOf[V]))
}
