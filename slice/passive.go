package slice

import (
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
)

// Passive marks a snapshot whose change alone does not run the slice, and returns the
// snapshot. When something else runs the slice, the snapshot shows that cut, like any
// other.
//
//	price := slice.Passive(slice.Snapshot(tick, unitPrice, "an order is quoted at the price when it is handled"))
//
// Use it for a collection that the slice only looks up. Its last version may never be
// seen. Passive panics if x is not a snapshot. A slice needs at least one input that is
// not passive: without one it panics when the flow starts.
func Passive[S dataflow.Versioned](x S) S {
	n := passiveOf(&x, "slice.Passive")
	n.MakePassive(engine.NewOp(n.Location(), "slice.Passive", ""))
	return x
}
