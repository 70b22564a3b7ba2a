// Package slice cuts the history of a location into pieces and looks at changing
// collections between them.
//
// A slice is a part of the program that runs once for each cut. All its inputs are cut
// at one point of the history, so they agree with each other: with inputs 1, 2 and
// their running sum, a batch and a snapshot see (1, 1), (2, 3) or (1, 3), (2, 3), never
// (1, 0). Inside, every collection is [bounds.Bounded] and lives at [dataflow.Tick], so
// every operator is available. Results leave the slice through Emit and Latest functions:
//
//	tick := slice.At(server)
//	fresh := slice.BatchEntries(tick, orders, "each order is quoted alone, once")
//	price := slice.Snapshot(tick, unitPrice, "an order is quoted at the price when it is handled")
//	quotes := slice.EmitEntries(keyedsingleton.Map(keyedsingleton.CrossSingleton(fresh, price), quote))
//
// # Rules
//
//  1. A slice runs only if one of its inputs has something new: a batch that is not
//     empty, or a new version of a snapshot that is not [Passive]. The first version
//     counts, once; a constant never does. By the time a location is quiet, every slice
//     that had new input has run with the final version of each input.
//  2. Batches of an ordered collection are consecutive pieces of it, and each element is
//     in one batch.
//  3. Stateful operators start afresh in every run. [State] carries a value from one
//     run to the next, [StateEntries] a keyed singleton.
//  4. Nothing is let in twice. Keep in state what must be matched later.
//  5. An emitted result cannot come back into the slice except through state, an input
//     or another location: the build refuses such a cycle and names its path.
package slice

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// At opens a slice at a location.
func At[L dataflow.Location](at L) dataflow.Tick[L] { return newTick(at) }

// Batch lets into the slice the elements of s that came since the previous cut.
//
// # Nondeterminism
//
// The runtime chooses where one batch ends and the next begins.
func Batch[T any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	tick dataflow.Tick[L], s dataflow.Stream[T, L, B, O, R], why dataflow.NonDet,
) dataflow.Stream[T, dataflow.Tick[L], bounds.Bounded, O, R] {
	n, op := engine.ReadReasoned(engine.NodeOf(s), "slice.Batch", why)
	return newStream[T, dataflow.Tick[L], bounds.Bounded, O, R](operators.BatchStream(regionOf(tick, op.Name), n, op))
}

// BatchKeyed lets into the slice the values of ks that came since the previous cut.
//
// # Nondeterminism
//
// The runtime chooses where one batch ends and the next begins.
func BatchKeyed[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	tick dataflow.Tick[L], ks dataflow.KeyedStream[K, V, L, B, O, R], why dataflow.NonDet,
) dataflow.KeyedStream[K, V, dataflow.Tick[L], bounds.Bounded, O, R] {
	n, op := engine.ReadReasoned(engine.KeyedNodeOf(ks), "slice.BatchKeyed", why)
	in := operators.BatchKeyed(regionOf(tick, op.Name), n, op, false)
	return newKeyedStream[K, V, dataflow.Tick[L], bounds.Bounded, O, R](in)
}

// BatchEntries lets into the slice the entries of ks that appeared since the previous
// cut. Each entry is in exactly one batch, so a slice handles each request once. Values
// must be fixed: for a collection whose values change, take [SnapshotEntries].
//
// # Nondeterminism
//
// The runtime chooses which entries share a batch.
func BatchEntries[K comparable, V any, L dataflow.Location, B bounds.FixedValues[Keys], Keys bounds.Stream](
	tick dataflow.Tick[L], ks dataflow.KeyedSingleton[K, V, L, B], why dataflow.NonDet,
) dataflow.KeyedSingleton[K, V, dataflow.Tick[L], bounds.Bounded] {
	n, op := engine.ReadReasoned(engine.KeyedNodeOf(ks), "slice.BatchEntries", why)
	in := operators.BatchKeyed(regionOf(tick, op.Name), n, op, true)
	return newKeyedSingleton[K, V, dataflow.Tick[L], bounds.Bounded](in)
}

// Snapshot lets into the slice the value of s at the cut.
//
// # Nondeterminism
//
// The runtime chooses which versions are seen. A skipped version is never seen later;
// the last version always is.
func Snapshot[T any, L dataflow.Location, B bounds.Singleton](
	tick dataflow.Tick[L], s dataflow.Singleton[T, L, B], why dataflow.NonDet,
) dataflow.Singleton[T, dataflow.Tick[L], bounds.Bounded] {
	c, op := engine.ReadReasoned(engine.ValueNodeOf(s), "slice.Snapshot", why)
	return newSingleton[T, dataflow.Tick[L], bounds.Bounded](operators.Snapshot(regionOf(tick, op.Name), c, op))
}

// SnapshotEntries lets into the slice the whole content of ks at the cut. The snapshot
// borrows the location's state, so taking it costs nothing at any size. A join costs
// one probe for each key looked up; only reading the whole content costs its size.
//
// # Nondeterminism
//
// The runtime chooses which versions are seen. A skipped version is never seen later;
// the last version always is.
func SnapshotEntries[K comparable, V any, L dataflow.Location, B bounds.Changing](
	tick dataflow.Tick[L], ks dataflow.KeyedSingleton[K, V, L, B], why dataflow.NonDet,
) dataflow.KeyedSingleton[K, V, dataflow.Tick[L], bounds.Bounded] {
	n, op := engine.ReadReasoned(engine.KeyedNodeOf(ks), "slice.SnapshotEntries", why)
	in := operators.SnapshotEntries(regionOf(tick, op.Name), n, op)
	return newKeyedSingleton[K, V, dataflow.Tick[L], bounds.Bounded](in)
}

// State carries a value from one run of the slice to the next. In the first run the
// singleton is init, in each later run the value that the previous run left. The
// function keep, called once while the flow is built, says which singleton of the slice
// gives the next value. Without keep the value stays init.
func State[T any, L dataflow.Location](
	tick dataflow.Tick[L], init T,
) (value dataflow.Singleton[T, dataflow.Tick[L], bounds.Bounded], keep func(next dataflow.Singleton[T, dataflow.Tick[L], bounds.Bounded])) {
	region := regionOf(tick, "slice.State")
	op := engine.NewOp(region.Location(), "slice.State", "")
	c, set := operators.State(region, op, init)
	return newSingleton[T, dataflow.Tick[L], bounds.Bounded](c),
		func(next dataflow.Singleton[T, dataflow.Tick[L], bounds.Bounded]) {
			set(engine.Made(engine.ValueNodeOf(next), op.Name))
		}
}

// Emit lets the elements of s out of the slice. Outside, the runs of the slice follow
// one another in order.
func Emit[T any, L dataflow.Location, O dataflow.Order, R dataflow.Retries](
	s dataflow.Stream[T, dataflow.Tick[L], bounds.Bounded, O, R],
) dataflow.Stream[T, L, bounds.Unbounded, O, R] {
	n, op := engine.Read(engine.NodeOf(s), "slice.Emit")
	op.Shuffled = unordered[O]()
	return newStream[T, L, bounds.Unbounded, O, R](operators.EmitStream(n, op))
}

// EmitKeyed lets the values of ks out of the slice, under their keys.
func EmitKeyed[K comparable, V any, L dataflow.Location, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, dataflow.Tick[L], bounds.Bounded, O, R],
) dataflow.KeyedStream[K, V, L, bounds.Unbounded, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "slice.EmitKeyed")
	op.Shuffled = unordered[O]()
	return newKeyedStream[K, V, L, bounds.Unbounded, O, R](operators.EmitKeyed(n, op))
}

// EmitEntries lets the entries of ks out of the slice. Every key must come from a
// [BatchEntries] of the slice, which gives it once, so that outside each key still has
// one value. Otherwise EmitEntries panics.
func EmitEntries[K comparable, V any, L dataflow.Location](
	ks dataflow.KeyedSingleton[K, V, dataflow.Tick[L], bounds.Bounded],
) dataflow.KeyedSingleton[K, V, L, bounds.BoundedValue] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "slice.EmitEntries")
	if n.Lives != nil {
		engine.Misuse(op.Name, "the keys come from a collection that forgets them: emit them with slice.EmitRetained")
	}
	if !n.Fresh {
		engine.Misuse(op.Name, "the keys do not come from a BatchEntries of this slice, so a key could be emitted twice; emit keyedsingleton.IntoKeyedStream of it and take keyedstream.First outside")
	}
	return newKeyedSingleton[K, V, L, bounds.BoundedValue](operators.EmitKeyed(n, op))
}

// EmitRetained is [EmitEntries] for keys from a [BatchEntries] of this slice over a
// collection that forgets keys. An emitted entry stays until that collection forgets
// its key. EmitRetained keeps a copy of the present keys.
//
// It panics if the keys do not come from such a BatchEntries.
func EmitRetained[K comparable, V any, L dataflow.Location](
	ks dataflow.KeyedSingleton[K, V, dataflow.Tick[L], bounds.Bounded],
) dataflow.KeyedSingleton[K, V, L, bounds.RetainedValue] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "slice.EmitRetained")
	if !n.Fresh || n.Lives == nil {
		engine.Misuse(op.Name, "the keys do not come from a BatchEntries of this slice of a collection that forgets keys: emit keyedsingleton.IntoKeyedStream of it, or use slice.EmitEntries where keys are never forgotten")
	}
	return newKeyedSingleton[K, V, L, bounds.RetainedValue](operators.EmitRetained(n, op))
}

// unordered reports whether O says that elements have no order.
func unordered[O dataflow.Order]() bool {
	_, ordered := any(*new(O)).(dataflow.TotalOrder)
	return !ordered
}
