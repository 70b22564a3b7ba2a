package dataflow

import (
	"context"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

var _ = inlined

// inlined uses a port of each kind on the path of a record, so that the export data of this
// package contains what the code of ports and operators inlines; see decision 0039. Nothing
// calls it.
func inlined(ctx context.Context, s *engine.Location, op *engine.Op, n *engine.Node[int], k *engine.KeyedNode[int, int]) {
	in, _ := port.NewInput[int](s, op)
	in.SendInTurn(ctx, 0)
	entries, _ := port.NewKeyedInput[int, int](s, op)
	entries.SendInTurn(ctx, 0, 0)
	operators.KeyBy(n, op, func(x int) int { return x })
	operators.First(k, op)
	operators.FoldEarlyStop(k, op, func() int { return 0 }, func(*int, int) bool { return true })
	operators.KFold(k, op, func() int { return 0 }, func(*int, int) {})
	operators.Scan(k, op, func() int { return 0 }, func(*int, int, func(int)) {})
	port.NewEntryOutput(k, op)
}
