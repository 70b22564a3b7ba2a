package dataflow

import (
	"context"

	"github.com/millrace/millrace/internal/engine"
)

var _ = inlined

// inlined has a port of each kind that is on the way of a record, so that the export data
// of this package has what the code of ports and operators inlines; see inline.go of
// package engine. Nothing calls it.
func inlined(ctx context.Context, in *InputPort[int], kin *KeyedInputPort[int, int], ein *EntryInputPort[int, int], op *engine.Op, n *engine.Node[int], k *engine.KNode[int, int]) {
	in.Send(ctx, 0)
	kin.Send(ctx, 0, 0)
	ein.Put(ctx, 0, 0)
	engine.KeyBy(n, op, func(x int) int { return x })
	engine.First(k, op)
	engine.FoldEarlyStop(k, op, func() int { return 0 }, func(*int, int) bool { return true })
	engine.KFold(k, op, func() int { return 0 }, func(*int, int) {})
	engine.Scan(k, op, func() int { return 0 }, func(*int, int, func(int)) {})
	engine.NewKOutlet(k, op)
}
