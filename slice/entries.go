package slice

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// StateEntries carries a keyed singleton from one run of the slice to the next. In the
// first run it holds initial, in each later run the content that the previous run left.
// The function keep, called once while the flow is built, says which keyed singleton of
// the slice gives the next content. That one replaces the content: a key that it does
// not hold is gone. Without keep the content stays initial. StateEntries panics if
// initial holds a key twice.
//
// Entries are let in once, so entries that must be matched later have to be kept here:
//
//	waiting, keep := slice.StateEntries[string, Order](tick)
//	open := keyedstream.First(keyedstream.Chain(
//		keyedsingleton.IntoKeyedStream(waiting), keyedsingleton.IntoKeyedStream(fresh)))
//	keep(keyedsingleton.WithoutKeys(open, paid))
//
// Reading an entry of the state costs one probe. A run costs the size of next.
func StateEntries[K comparable, V any, L dataflow.Location](
	tick dataflow.Tick[L], initial ...dataflow.Entry[K, V],
) (value dataflow.KeyedSingleton[K, V, dataflow.Tick[L], bounds.Bounded], keep func(next dataflow.KeyedSingleton[K, V, dataflow.Tick[L], bounds.Bounded])) {
	region := regionOf(tick, "slice.StateEntries")
	op := engine.NewOp(region.Location(), "slice.StateEntries", "")
	pairs := make([]operators.Pair[K, V], len(initial))
	for i, e := range initial {
		pairs[i] = operators.Pair[K, V]{Key: e.Key, Value: e.Value}
	}
	n, set := operators.StateEntries(region, op, pairs)
	return newKeyedSingleton[K, V, dataflow.Tick[L], bounds.Bounded](n),
		func(next dataflow.KeyedSingleton[K, V, dataflow.Tick[L], bounds.Bounded]) {
			set(engine.Made(engine.KeyedNodeOf(next), op.Name))
		}
}
