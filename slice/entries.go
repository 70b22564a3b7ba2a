package slice

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// StateEntries carries a keyed singleton from one run of the slice to the next. It
// has the content that the previous run left, initial in the first run; keep, called
// once while the flow is built, says which keyed singleton of the slice gives the
// next. What that does not have is gone: next replaces the content, it is not added
// to it. Without keep the content stays initial. A key that is twice in initial
// panics.
//
// Entries are let in once, so what is to be matched later has to be kept here:
//
//	waiting, keep := slice.StateEntries[string, Order](tick)
//	open := keyedstream.First(keyedstream.Chain(
//		keyedsingleton.IntoKeyedStream(waiting), keyedsingleton.IntoKeyedStream(fresh)))
//	keep(keyedsingleton.WithoutKeys(open, paid))
//
// Reading an entry of the state costs a probe. A run costs the content of next.
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
