package slice

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// SnapshotOptional lets into the slice the value of x at the cut, if x has one. The
// slice runs when the value comes, changes or goes. It does not run for a value that
// has been absent from the start.
//
// # Nondeterminism
//
// The runtime chooses which versions are seen. A skipped version is never seen later;
// the last version always is.
func SnapshotOptional[T any, L dataflow.Location, B bounds.Singleton](
	tick dataflow.Tick[L], x dataflow.Optional[T, L, B], why dataflow.NonDet,
) dataflow.Optional[T, dataflow.Tick[L], bounds.Bounded] {
	c, op := engine.ReadReasoned(engine.ValueNodeOf(x), "slice.SnapshotOptional", why)
	in := operators.Snapshot(regionOf(tick, op.Name), c, op)
	return newOptional[T, dataflow.Tick[L], bounds.Bounded](in)
}

// Latest lets the value of x out of the slice. Outside, it is the value of the newest
// run, and init before the first run. A reader that looks at it between every two runs
// misses no version. A snapshot of it may skip versions: where each version counts,
// [Emit] them instead.
func Latest[T any, L dataflow.Location](
	x dataflow.Singleton[T, dataflow.Tick[L], bounds.Bounded], init T,
) dataflow.Singleton[T, L, bounds.Unbounded] {
	c, op := engine.Read(engine.ValueNodeOf(x), "slice.Latest")
	return newSingleton[T, L, bounds.Unbounded](operators.EmitValue(c, op, &init))
}

// LatestOptional lets the value of x out of the slice. Outside, it is the value of the
// newest run. It is absent if that run had no value or the slice has not run yet.
func LatestOptional[T any, L dataflow.Location](
	x dataflow.Optional[T, dataflow.Tick[L], bounds.Bounded],
) dataflow.Optional[T, L, bounds.Unbounded] {
	c, op := engine.Read(engine.ValueNodeOf(x), "slice.LatestOptional")
	return newOptional[T, L, bounds.Unbounded](operators.EmitValue(c, op, nil))
}
