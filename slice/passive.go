package slice

import (
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
)

// Passive marks a snapshot whose change alone does not run the slice, and returns it.
// When something else runs the slice, the snapshot is of that cut, like any other.
//
//	price := slice.Passive(slice.Snapshot(tick, unitPrice, "an order is quoted at the price when it is handled"))
//
// It serves for what is only looked up. The last version may never be seen. A slice
// needs an input that is not passive: without one it panics when the flow starts, and
// so does, while the flow is built, what is no snapshot.
func Passive[S dataflow.Versioned](x S) S {
	n := passiveOf(&x, "slice.Passive")
	n.MakePassive(engine.NewOp(n.Location(), "slice.Passive", ""))
	return x
}
