package slice

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// SnapshotOptional lets into the slice the value of x at the cut, if it has one. That
// it comes, changes or goes is news that runs the slice; that it was never there is
// none.
//
// # Nondeterminism
//
// Which versions are seen is the runtime's choice; a version that was skipped is
// never seen, the last one always is.
func SnapshotOptional[T any, L dataflow.Location, B bounds.Singleton](
	tick dataflow.Tick[L], x dataflow.Optional[T, L, B], why dataflow.NonDet,
) dataflow.Optional[T, dataflow.Tick[L], bounds.Bounded] {
	c, op := engine.ReadReasoned(engine.ValueNodeOf(x), "slice.SnapshotOptional", why)
	in := operators.Snapshot(regionOf(tick, op.Name), c, op)
	return newOptional[T, dataflow.Tick[L], bounds.Bounded](in)
}

// Latest lets the value of x out of the slice: outside, it is that of the newest run,
// and init before the first. Whoever looks at it between two runs misses none; who
// takes a snapshot of it may skip one, and should have [Emit] of its versions instead
// where each counts.
func Latest[T any, L dataflow.Location](
	x dataflow.Singleton[T, dataflow.Tick[L], bounds.Bounded], init T,
) dataflow.Singleton[T, L, bounds.Unbounded] {
	c, op := engine.Read(engine.ValueNodeOf(x), "slice.Latest")
	return newSingleton[T, L, bounds.Unbounded](operators.EmitValue(c, op, &init))
}

// LatestOptional lets the value of x out of the slice: outside, it is that of the
// newest run, and absent if that run had none or there was none yet.
func LatestOptional[T any, L dataflow.Location](
	x dataflow.Optional[T, dataflow.Tick[L], bounds.Bounded],
) dataflow.Optional[T, L, bounds.Unbounded] {
	c, op := engine.Read(engine.ValueNodeOf(x), "slice.LatestOptional")
	return newOptional[T, L, bounds.Unbounded](operators.EmitValue(c, op, nil))
}
