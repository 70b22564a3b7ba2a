package keyedstream

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// Retain says how long [FirstWithin] and [FoldEarlyStopWithin] remember a completed key.
type Retain = dataflow.Retain

func within(op string, r Retain) operators.Retain {
	if r.Keys < 0 || r.For < 0 || r.Open < 0 || r.Keys == 0 && r.For == 0 {
		engine.Misuse(op, "nothing would be remembered for %d keys and %v, with %v for what is open: set Keys or For, and nothing to less than zero", r.Keys, r.For, r.Open)
	}
	return operators.Retain(r)
}

// FirstWithin is [First] with limited memory: it returns the first value of each key and
// ignores later ones for as long as the key is remembered. A value of a forgotten key is
// a first one again, in another life of the key.
//
// It keeps only the keys that it remembers, in some 20 bytes plus the key itself, and
// takes O(1) for each value. A flow ends without waiting for a key to be forgotten. A
// Retain without Keys and For, with a negative field, or with Open panics.
//
// # Nondeterminism
//
// Which keys are forgotten when a value comes depends on the order in which values of
// different keys come, and on the clock if For is set; why says that no repeat comes so
// late, or that it does no harm.
func FirstWithin[K comparable, V any, L dataflow.Location, O dataflow.Ordered, R dataflow.NoRetries](
	ks dataflow.KeyedStream[K, V, L, bounds.Unbounded, O, R], retain Retain, why dataflow.NonDet,
) dataflow.KeyedSingleton[K, V, L, bounds.RetainedValue] {
	n, op := engine.ReadReasoned(engine.KeyedNodeOf(ks), "keyedstream.FirstWithin", why)
	r := within(op.Name, retain)
	if r.Open != 0 {
		engine.Misuse(op.Name, "Open is %v, but nothing is open: a key is complete with its first value", r.Open)
	}
	return newKeyedSingleton[K, V, L, bounds.RetainedValue](operators.FirstWithin(n, op, r))
}

// FoldEarlyStopWithin is [FoldEarlyStop] with limited memory: it returns the aggregate of
// a key when step returns true and ignores later values for as long as the key is
// remembered. A value that comes after that starts a new aggregate, which may complete in
// its turn: that is another life of the key.
//
// A key that never completes keeps its aggregate for as long as the flow runs, unless
// retain has Open. A completed key costs some 20 bytes plus the key itself while it is
// remembered, and each value O(1). A flow ends without waiting for a key to be forgotten.
// A Retain without Keys and For, or with a negative field, panics.
//
// # Nondeterminism
//
// Which keys are forgotten when a value comes depends on the order in which values of
// different keys come, and on the clock if For or Open is set; why says that no value
// comes so late, or that starting again does no harm.
func FoldEarlyStopWithin[K comparable, V, A any, L dataflow.Location, O dataflow.Ordered, R dataflow.NoRetries](
	ks dataflow.KeyedStream[K, V, L, bounds.Unbounded, O, R], init func() A, step func(acc *A, v V) (done bool), retain Retain, why dataflow.NonDet,
) dataflow.KeyedSingleton[K, A, L, bounds.RetainedValue] {
	n, op := engine.ReadReasoned(engine.KeyedNodeOf(ks), "keyedstream.FoldEarlyStopWithin", why, init, step)
	folded := operators.FoldEarlyStopWithin(n, op, init, step, within(op.Name, retain))
	return newKeyedSingleton[K, A, L, bounds.RetainedValue](folded)
}
