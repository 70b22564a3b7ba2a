package slice

import (
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/seal"
)

// snapshot is satisfied by what [Snapshot], [SnapshotOptional] and [SnapshotEntries]
// return.
type snapshot[N readAtTheCut] interface{ Unseal(seal.Key) N }

// readAtTheCut is satisfied by the inside of what has one value at a time.
type readAtTheCut interface {
	Site() *engine.Site
	MakePassive(*engine.Op)
}

// Passive marks a snapshot whose change alone does not run the slice, and returns it.
// When something else runs the slice, the snapshot is of that cut, like any other.
//
//	price := slice.Passive(slice.Snapshot(tick, unitPrice, "an order is quoted at the price when it is handled"))
//
// It serves for what is only looked up. The last version may never be seen. A slice
// needs an input that is not passive: without one it panics when the flow starts, and
// so does, while the flow is built, what is no snapshot.
func Passive[S snapshot[N], N readAtTheCut](x S) S {
	n := x.Unseal(key)
	n.MakePassive(engine.NewOp(n.Site(), "slice.Passive", ""))
	return x
}
