package keyedstream

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// ScanFirst is [Scan] for a state machine that decides something about its key, once:
// what step emits is a stream under that key and in order, and the first that step
// returns with true is the key's entry among the decisions, for good. Later decisions
// are ignored, and a key that is never decided never appears. Step goes on being called
// after the decision; if it panics, the flow ends with a [dataflow.StepError].
//
// It is what Scan, FilterMap and [First] are together, in one table: the state of a key
// is kept for as long as the flow runs, and one bit with it. What a value makes step
// emit is released before what it makes step decide.
func ScanFirst[K comparable, V, S, U, A any, L dataflow.Location, B bounds.Final[Out], O dataflow.Ordered, R dataflow.NoRetries, Out bounds.KeyedSingleton](
	ks dataflow.KeyedStream[K, V, L, B, O, R], init func() S, step func(state *S, v V, emit func(U)) (decision A, decided bool),
) (emitted dataflow.KeyedStream[K, U, L, B, dataflow.TotalOrder, dataflow.ExactlyOnce], decisions dataflow.KeyedSingleton[K, A, L, Out]) {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.ScanFirst", init, step)
	us, as := operators.ScanFirst(n, op, init, step)
	return newKeyedStream[K, U, L, B, dataflow.TotalOrder, dataflow.ExactlyOnce](us), newKeyedSingleton[K, A, L, Out](as)
}
