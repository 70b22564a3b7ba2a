package dataflow

import (
	"fmt"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// Of returns a bounded stream of the given elements, which are present when the flow
// starts, and inside a slice in each of its runs.
func Of[T any, L Location](at L, elems ...T) Stream[T, L, bounds.Bounded, TotalOrder, ExactlyOnce] {
	p := placeOf(at, "dataflow.Of")
	engine.NewOp(p.Location, "dataflow.Of", "")
	return newStream[T, L, bounds.Bounded, TotalOrder, ExactlyOnce](operators.Constant(p.Location, p.Region, elems))
}

// Output returns a port for reading the elements of s, in the order in which the location
// released them. Every output must be read, or its location stops.
func Output[T any, L Location, B bounds.Stream, O Order, R Retries](s Stream[T, L, B, O, R], name string) *OutputPort[T] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.Output "+name)
	if mayRepeat[R]() {
		engine.SeesRepeats(&n.Head)
	}
	return newOutputPort(port.NewOutput(n, op))
}

// Map returns the stream of f(x) for each x in s, in the order of s.
//
// The cost is one call for each element. An element of more than four words is
// cheaper through [MapRef].
func Map[T, U any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], f func(T) U,
) Stream[U, L, B, O, R] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.Map", f)
	return newStream[U, L, B, O, R](operators.Map(n, op, f))
}

// MapRef is [Map] for elements that are expensive to copy. The pointer is borrowed: f must
// not write through it or keep it.
func MapRef[T, U any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], f func(*T) U,
) Stream[U, L, B, O, R] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.MapRef", f)
	return newStream[U, L, B, O, R](operators.MapRef(n, op, f))
}

// Filter returns the elements of s for which keep is true.
func Filter[T any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], keep func(T) bool,
) Stream[T, L, B, O, R] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.Filter", keep)
	return newStream[T, L, B, O, R](operators.Filter(n, op, keep))
}

// FilterMap returns the result of f for each element for which f returns true. It makes one
// call where Map and Filter make two.
func FilterMap[T, U any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], f func(T) (U, bool),
) Stream[U, L, B, O, R] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.FilterMap", f)
	return newStream[U, L, B, O, R](operators.FilterMap(n, op, f))
}

// FlatMap returns all elements that f emits for each element of s, in order. The function
// emit must not be called after f has returned.
func FlatMap[T, U any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], f func(x T, emit func(U)),
) Stream[U, L, B, O, R] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.FlatMap", f)
	return newStream[U, L, B, O, R](operators.FlatMap(n, op, f))
}

// Inspect calls f with each element of s and returns s. It calls f whether or not anything
// reads the result.
func Inspect[T any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], f func(T),
) Stream[T, L, B, O, R] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.Inspect", f)
	op.Shuffled = unordered[O]()
	return newStream[T, L, B, O, R](operators.Inspect(n, op, f))
}

// ForEach calls f with each element of s, in order. It does not accept a stream without
// order or with repeats, because the effect of f could depend on them.
func ForEach[T any, L Location, B bounds.Stream, O Ordered, R NoRetries](s Stream[T, L, B, O, R], f func(T)) {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.ForEach", f)
	operators.Inspect(n, op, f)
}

// Print prints each element of s on a line, for examples and debugging. Unlike [ForEach] it
// accepts a stream without order, so its output may differ from run to run.
func Print[T any, L Location, B bounds.Stream, O Order, R Retries](s Stream[T, L, B, O, R]) {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.Print")
	op.Shuffled = unordered[O]()
	operators.Inspect(n, op, func(x T) { fmt.Println(x) })
}

// Merge returns the elements of both streams, in no particular order.
func Merge[T any, L Location, B bounds.Stream, O1, O2 Order, R Retries](
	s Stream[T, L, B, O1, R], t Stream[T, L, B, O2, R],
) Stream[T, L, B, NoOrder, R] {
	a, op := engine.Read(engine.NodeOf(s), "dataflow.Merge")
	b := engine.Made(engine.NodeOf(t), op.Name)
	return newStream[T, L, B, NoOrder, R](operators.Merge(op, a, b))
}

// KeyBy returns the elements of s, each under its key. Within a key they keep the order of
// s. The elements are not copied.
func KeyBy[T any, K comparable, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], key func(T) K,
) KeyedStream[K, T, L, B, O, R] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.KeyBy", key)
	return newKeyedStream[K, T, L, B, O, R](operators.KeyBy(n, op, key))
}

// KeyByRef is [KeyBy] for elements that are expensive to copy. The pointer is borrowed: key
// must not write through it or keep it.
func KeyByRef[T any, K comparable, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], key func(*T) K,
) KeyedStream[K, T, L, B, O, R] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.KeyByRef", key)
	return newKeyedStream[K, T, L, B, O, R](operators.KeyByRef(n, op, key))
}

// Keyed returns the values of the entries of s under their keys.
func Keyed[K comparable, V any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[Entry[K, V], L, B, O, R],
) KeyedStream[K, V, L, B, O, R] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.Keyed")
	return newKeyedStream[K, V, L, B, O, R](operators.Split(n, op, func(e *Entry[K, V]) (K, V) { return e.Key, e.Value }))
}

// AssumeOrder fixes the order in which the elements of s happen to come.
//
// # Nondeterminism
//
// The runtime chooses the order, which may differ between runs; why says that the result
// does not show it, or may show it.
func AssumeOrder[T any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], why NonDet,
) Stream[T, L, B, TotalOrder, R] {
	n, op := engine.ReadReasoned(engine.NodeOf(s), "dataflow.AssumeOrder", why)
	return newStream[T, L, B, TotalOrder, R](operators.Observe(n, op))
}

// AssumeOnce treats each element of s as one that is not repeated.
//
// # Nondeterminism
//
// The sender and the network decide whether an element comes again; why says that a repeat
// does no harm.
func AssumeOnce[T any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], why NonDet,
) Stream[T, L, B, O, ExactlyOnce] {
	n, op := engine.ReadReasoned(engine.NodeOf(s), "dataflow.AssumeOnce", why)
	engine.SeesRepeats(&n.Head)
	return newStream[T, L, B, O, ExactlyOnce](engine.Pass(n, op))
}

// AssumeRepeats drops the guarantee that the elements of s are not repeated. It costs
// nothing. Use it to merge s with a stream that may repeat.
func AssumeRepeats[T any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R],
) Stream[T, L, B, O, AtLeastOnce] {
	return newStream[T, L, B, O, AtLeastOnce](engine.Made(engine.NodeOf(s), "dataflow.AssumeRepeats"))
}

// Fold calls step with an accumulator that starts as init's result and each element of s,
// in order. It returns the aggregate, which is present from the start and is revised as
// elements come.
func Fold[T, A any, L Location, B bounds.Stream, O Ordered, R NoRetries](
	s Stream[T, L, B, O, R], init func() A, step func(acc *A, x T),
) Singleton[A, L, B] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.Fold", init, step)
	return newSingleton[A, L, B](operators.Fold(n, op, init, step))
}

// Count returns the number of elements of s. The order does not matter.
func Count[T any, L Location, B bounds.FoldedGrowing[Out], O Order, R NoRetries, Out bounds.Aggregate](
	s Stream[T, L, B, O, R],
) Singleton[int, L, Out] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.Count")
	return newSingleton[int, L, Out](operators.Fold(n, op, func() int { return 0 }, func(acc *int, _ T) { *acc++ }))
}

// CrossSingleton returns each element of s together with the value of x. Either both
// are in one slice, or x is a constant.
func CrossSingleton[T, X any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], x Singleton[X, L, bounds.Bounded],
) Stream[Pair[T, X], L, B, O, R] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.CrossSingleton")
	return newStream[Pair[T, X], L, B, O, R](operators.Cross(n, engine.Made(engine.ValueNodeOf(x), op.Name), op, func(t T, v X) Pair[T, X] { return Pair[T, X]{t, v} }))
}
