package operators

import "github.com/millrace/millrace/internal/engine"

// InlinedOperators has one of each operator that is on the way of a record; see inline.go.
// It is exported so that it counts as used.
func InlinedOperators(op *engine.Op, n *engine.Node[int], k *engine.KeyedNode[int, int]) {
	KeyBy(n, op, func(x int) int { return x })
	First(k, op)
	FoldEarlyStop(k, op, func() int { return 0 }, func(*int, int) bool { return true })
	KFold(k, op, func() int { return 0 }, func(*int, int) {})
	Scan(k, op, func() int { return 0 }, func(*int, int, func(int)) {})
}
