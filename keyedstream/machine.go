package keyedstream

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/machines"
)

// Machine runs a state machine for each key, which can forget its key. The time from the first
// value of a key until it is forgotten is a life of the key. A life begins with the state that
// init returns. For each value of the key, step is called with the state, the value, and a
// [Turn] that says what to do. If step panics, the flow ends with a [dataflow.StepError].
//
// The elements that step emits are a stream under that key and in order. Its decision, at most
// one in a life, is the key's entry among the decisions until the life ends.
//
// It takes no reason: the result for a key depends only on the order of its values, which the
// type of ks guarantees. For a machine with a clock, use [TimedMachine]; for a state machine
// that decides for good and never forgets, [ScanFirst].
//
// It keeps the state of each key that was not forgotten, in some 20 bytes plus the key and the
// state, and takes O(1) for each value.
func Machine[K comparable, V, S, U, A any, L dataflow.Location, O dataflow.Ordered, R dataflow.NoRetries](
	ks dataflow.KeyedStream[K, V, L, bounds.Unbounded, O, R], init func() S, step func(state *S, v V, do *Turn[K, U, A]),
) (emitted dataflow.KeyedStream[K, U, L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce], decided dataflow.KeyedSingleton[K, A, L, bounds.RetainedValue]) {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Machine", init, step)
	do := new(Turn[K, U, A])
	us, as := machines.Machine(n, op, &do.noted, init, func(state *S, v V) { step(state, v, do) })
	return newKeyedStream[K, U, L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce](us), newKeyedSingleton[K, A, L, bounds.RetainedValue](as)
}

// TimedMachine is [Machine] with timers, for values in any order. A [TimedTurn] sets, moves and
// stops the timers of its key. The function fire is called with the state when a timer fires,
// and never after the life that set the timer is over. A firing begins no life. If a flow's
// inputs are closed, it ends when no timer is set. [dataflow.App.Stop] does not wait for
// timers.
//
// A pending timer costs some 50 bytes. Setting one takes O(1).
//
// # Nondeterminism
//
// The runtime chooses the order of a key's values, where ks has none, and when timers fire
// between them; why says that the machine is right in every such order. A simulation explores
// them.
func TimedMachine[K comparable, V, S, U, A any, L dataflow.Location, O dataflow.Order, R dataflow.NoRetries](
	ks dataflow.KeyedStream[K, V, L, bounds.Unbounded, O, R], init func() S,
	step func(state *S, v V, do *TimedTurn[K, U, A]), fire func(state *S, t Timer, do *TimedTurn[K, U, A]), why dataflow.NonDet,
) (emitted dataflow.KeyedStream[K, U, L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce], decided dataflow.KeyedSingleton[K, A, L, bounds.RetainedValue]) {
	n, op := engine.ReadReasoned(engine.KeyedNodeOf(ks), "keyedstream.TimedMachine", why, init, step, fire)
	do := new(TimedTurn[K, U, A])
	us, as := machines.TimedMachine(n, op, &do.noted, init,
		func(state *S, v V) { step(state, v, do) }, func(state *S, t uint8) { fire(state, Timer(t), do) })
	return newKeyedStream[K, U, L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce](us), newKeyedSingleton[K, A, L, bounds.RetainedValue](as)
}
