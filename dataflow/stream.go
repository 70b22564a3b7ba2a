package dataflow

import (
	"fmt"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/internal/engine"
)

// Of returns a bounded stream of the given elements, which are there when the flow
// starts. Inside a slice, they are there in each run of it.
func Of[T any, L Location](at L, elems ...T) Stream[T, L, bounds.Bounded, TotalOrder, ExactlyOnce] {
	p := at.place().check("dataflow.Of")
	engine.NewOp(p.site, "dataflow.Of", "")
	return Stream[T, L, bounds.Bounded, TotalOrder, ExactlyOnce]{node: engine.Constant(p.site, p.region, elems)}
}

// Input returns a port and the stream of what is sent to it. The name appears in
// errors, traces and graphs.
func Input[T any, L Location](at L, name string) (*InputPort[T], Stream[T, L, bounds.Unbounded, TotalOrder, ExactlyOnce]) {
	p := at.place().check("dataflow.Input")
	if p.region != nil {
		engine.Misuse("dataflow.Input", "an input comes from outside and cannot be inside %s", p.region)
	}
	in, n := engine.NewInlet[T](p.site, engine.NewOp(p.site, "dataflow.Input "+name, ""))
	return &InputPort[T]{in}, Stream[T, L, bounds.Unbounded, TotalOrder, ExactlyOnce]{node: n}
}

// Output returns a port from which the elements of s are read, in the order in which
// the location released them. Every output must be read, or its location stops.
func Output[T any, L Location, B bounds.Stream, O Order, R Retries](s Stream[T, L, B, O, R], name string) *OutputPort[T] {
	n := made(s.node)
	return &OutputPort[T]{engine.NewOutlet(n, engine.NewOp(n.Site(), "dataflow.Output "+name, ""))}
}

// Map returns the stream of f(x) for each x in s, in the order of s.
//
// The cost is one call for each element. An element of more than four words is
// cheaper through [MapRef].
func Map[T, U any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], f func(T) U,
) Stream[U, L, B, O, R] {
	n := made(s.node)
	return Stream[U, L, B, O, R]{node: engine.Map(n, engine.NewOp(n.Site(), "dataflow.Map", ""), f)}
}

// MapRef is [Map] for elements that are dear to copy. The pointer is borrowed: f
// neither writes through it nor keeps it.
func MapRef[T, U any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], f func(*T) U,
) Stream[U, L, B, O, R] {
	n := made(s.node)
	return Stream[U, L, B, O, R]{node: engine.MapRef(n, engine.NewOp(n.Site(), "dataflow.MapRef", ""), f)}
}

// Filter returns the elements of s for which keep is true.
func Filter[T any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], keep func(T) bool,
) Stream[T, L, B, O, R] {
	n := made(s.node)
	return Stream[T, L, B, O, R]{node: engine.Filter(n, engine.NewOp(n.Site(), "dataflow.Filter", ""), keep)}
}

// FilterMap returns what f returned together with true. It is one call where Map
// and Filter are two.
func FilterMap[T, U any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], f func(T) (U, bool),
) Stream[U, L, B, O, R] {
	n := made(s.node)
	return Stream[U, L, B, O, R]{node: engine.FilterMap(n, engine.NewOp(n.Site(), "dataflow.FilterMap", ""), f)}
}

// FlatMap returns everything that f emits for each element of s, in order. The
// function emit must not be called after f has returned.
func FlatMap[T, U any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], f func(x T, emit func(U)),
) Stream[U, L, B, O, R] {
	n := made(s.node)
	return Stream[U, L, B, O, R]{node: engine.FlatMap(n, engine.NewOp(n.Site(), "dataflow.FlatMap", ""), f)}
}

// Inspect calls f with each element of s and returns s. The call is made whether or
// not anything reads the result.
func Inspect[T any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], f func(T),
) Stream[T, L, B, O, R] {
	n := made(s.node)
	return Stream[T, L, B, O, R]{node: engine.Inspect(n, engine.NewOp(n.Site(), "dataflow.Inspect", ""), f)}
}

// ForEach calls f with each element of s, in order. A stream without order or with
// repeats is refused, because the effect of f could depend on them.
func ForEach[T any, L Location, B bounds.Stream, O Ordered, R NoRetries](s Stream[T, L, B, O, R], f func(T)) {
	n := made(s.node)
	engine.Inspect(n, engine.NewOp(n.Site(), "dataflow.ForEach", ""), f)
}

// Print prints each element of s on a line, for examples and debugging. Unlike
// [ForEach] it takes a stream without order, so its output may differ from run to run.
func Print[T any, L Location, B bounds.Stream, O Order, R Retries](s Stream[T, L, B, O, R]) {
	n := made(s.node)
	engine.Inspect(n, engine.NewOp(n.Site(), "dataflow.Print", ""), func(x T) { fmt.Println(x) })
}

// Merge returns the elements of both streams, in no particular order.
func Merge[T any, L Location, B bounds.Stream, O1, O2 Order, R Retries](
	s Stream[T, L, B, O1, R], t Stream[T, L, B, O2, R],
) Stream[T, L, B, NoOrder, R] {
	a, b := made(s.node), made(t.node)
	return Stream[T, L, B, NoOrder, R]{node: engine.Merge(engine.NewOp(a.Site(), "dataflow.Merge", ""), a, b)}
}

// KeyBy returns the elements of s under the key of each. Within a key they keep the
// order of s. The elements are not copied.
func KeyBy[T any, K comparable, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], key func(T) K,
) KeyedStream[K, T, L, B, O, R] {
	n := made(s.node)
	return KeyedStream[K, T, L, B, O, R]{node: engine.KeyBy(n, engine.NewOp(n.Site(), "dataflow.KeyBy", ""), key)}
}

// KeyByRef is [KeyBy] for elements that are dear to copy. The pointer is borrowed:
// key neither writes through it nor keeps it.
func KeyByRef[T any, K comparable, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], key func(*T) K,
) KeyedStream[K, T, L, B, O, R] {
	n := made(s.node)
	return KeyedStream[K, T, L, B, O, R]{node: engine.KeyByRef(n, engine.NewOp(n.Site(), "dataflow.KeyByRef", ""), key)}
}

// Keyed returns the values of the entries of s under their keys.
func Keyed[K comparable, V any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[Entry[K, V], L, B, O, R],
) KeyedStream[K, V, L, B, O, R] {
	n := made(s.node)
	op := engine.NewOp(n.Site(), "dataflow.Keyed", "")
	return KeyedStream[K, V, L, B, O, R]{node: engine.Split(n, op, func(e *Entry[K, V]) (K, V) { return e.Key, e.Value })}
}

// AssumeOrder fixes the order in which the elements of s happen to come.
//
// # Nondeterminism
//
// The order is the runtime's choice and may differ between runs; why says that it
// cannot be seen in the result, or may be.
func AssumeOrder[T any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], why NonDet,
) Stream[T, L, B, TotalOrder, R] {
	n := made(s.node)
	op := engine.Reasoned(n.Site(), "dataflow.AssumeOrder", string(why))
	return Stream[T, L, B, TotalOrder, R]{node: engine.Observe(n, op)}
}

// AssumeOnce takes each element of s for one that was not repeated.
//
// # Nondeterminism
//
// Whether an element comes again is the sender's and the network's choice; why says
// that a repeat does no harm.
func AssumeOnce[T any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], why NonDet,
) Stream[T, L, B, O, ExactlyOnce] {
	n := made(s.node)
	op := engine.Reasoned(n.Site(), "dataflow.AssumeOnce", string(why))
	return Stream[T, L, B, O, ExactlyOnce]{node: engine.Pass(n, op)}
}

// AssumeRepeats forgets that the elements of s are not repeated. It costs nothing and
// serves to merge s with a stream that may repeat.
func AssumeRepeats[T any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R],
) Stream[T, L, B, O, AtLeastOnce] {
	return Stream[T, L, B, O, AtLeastOnce]{node: made(s.node)}
}

// Fold returns the aggregate of all elements of s, in order: what step made of
// init's result. It is there from the start and is revised as elements come.
func Fold[T, A any, L Location, B bounds.Stream, O Ordered, R NoRetries](
	s Stream[T, L, B, O, R], init func() A, step func(acc *A, x T),
) Singleton[A, L, B] {
	n := made(s.node)
	return Singleton[A, L, B]{cell: engine.Fold(n, engine.NewOp(n.Site(), "dataflow.Fold", ""), init, step)}
}

// Count returns the number of elements of s. The order does not matter.
func Count[T any, L Location, B bounds.FoldedGrowing[Out], O Order, R NoRetries, Out bounds.Aggregate](
	s Stream[T, L, B, O, R],
) Singleton[int, L, Out] {
	n := made(s.node)
	op := engine.NewOp(n.Site(), "dataflow.Count", "")
	return Singleton[int, L, Out]{cell: engine.Fold(n, op, func() int { return 0 }, func(acc *int, _ T) { *acc++ })}
}

// CrossSingleton returns each element of s together with the value of x. Either both
// are in one slice, or x is a constant.
func CrossSingleton[T, X any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], x Singleton[X, L, bounds.Bounded],
) Stream[Pair[T, X], L, B, O, R] {
	n := made(s.node)
	op := engine.NewOp(n.Site(), "dataflow.CrossSingleton", "")
	return Stream[Pair[T, X], L, B, O, R]{node: engine.Cross(n, made(x.cell), op, func(t T, v X) Pair[T, X] { return Pair[T, X]{t, v} })}
}
