package keyedstream

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// ScanFirst is [Scan] for a state machine that makes one decision about its key. The
// elements that step emits are a stream under that key and in order. The first decision
// that step returns with true is the key's entry among the decisions, for good. Later
// decisions are ignored, and a key without a decision never appears. Calls of step
// continue after the decision. If step panics, the flow ends with a [dataflow.StepError].
//
// It does the work of Scan, FilterMap and [First] with one table: the state of a key is
// kept for as long as the flow runs, with one more bit. For each value, emitted elements
// are released before the decision.
func ScanFirst[K comparable, V, S, U, A any, L dataflow.Location, B bounds.Final[Out], O dataflow.Ordered, R dataflow.NoRetries, Out bounds.KeyedSingleton](
	ks dataflow.KeyedStream[K, V, L, B, O, R], init func() S, step func(state *S, v V, emit func(U)) (decision A, decided bool),
) (emitted dataflow.KeyedStream[K, U, L, B, dataflow.TotalOrder, dataflow.ExactlyOnce], decisions dataflow.KeyedSingleton[K, A, L, Out]) {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.ScanFirst", init, step)
	us, as := operators.ScanFirst(n, op, init, step)
	return newKeyedStream[K, U, L, B, dataflow.TotalOrder, dataflow.ExactlyOnce](us), newKeyedSingleton[K, A, L, Out](as)
}
