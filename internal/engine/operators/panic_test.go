package operators_test

import (
	"testing"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// TestPanicNamesTheKey has the function of a keyed operator panic on one of several values, in a batch
// and alone. It fails if the operator does not record which element it works on: the error would name the
// key of another one.
func TestPanicNamesTheKey(t *testing.T) {
	const culprit = 30
	bomb := func(v int) int {
		if v == culprit {
			panic("as wanted")
		}
		return v
	}
	zero := func() int { return 0 }
	stop := func(_ *int, v int) bool { return bomb(v) < 0 }
	byKey := func() *operators.Sequence[int] {
		return operators.Sequenced(func(k int) (int, uint64) { return 0, uint64(k) })
	}
	for name, build := range map[string]func(op *engine.Op, n *knode){
		"KMap":        func(op *engine.Op, n *knode) { operators.KMap(n, op, bomb) },
		"KMapWithKey": func(op *engine.Op, n *knode) { operators.KMapWithKey(n, op, func(_, v int) int { return bomb(v) }) },
		"KFilterMap": func(op *engine.Op, n *knode) {
			operators.KFilterMap(n, op, func(_, v int) (int, bool) { return bomb(v), true })
		},
		"KInspect": func(op *engine.Op, n *knode) { operators.KInspect(n, op, func(_, v int) { bomb(v) }) },
		"KFork": func(op *engine.Op, n *knode) {
			operators.KFork(n, op, func(v int) (int, int, bool) { return bomb(v), v, true })
		},
		"KFlatMap": func(op *engine.Op, n *knode) {
			operators.KFlatMap(n, op, func(v int, emit func(int)) { emit(bomb(v)) })
		},
		"KRekey": func(op *engine.Op, n *knode) { operators.KRekey(n, op, func(_, v int) int { return bomb(v) }) },
		"KFold":  func(op *engine.Op, n *knode) { operators.KFold(n, op, zero, func(_ *int, v int) { bomb(v) }) },
		"Scan": func(op *engine.Op, n *knode) {
			operators.Scan(n, op, zero, func(_ *int, v int, emit func(int)) { emit(bomb(v)) })
		},
		"ScanFirst": func(op *engine.Op, n *knode) {
			operators.ScanFirst(n, op, zero, func(_ *int, v int, _ func(int)) (int, bool) { return bomb(v), false })
		},
		"FoldEarlyStop":          func(op *engine.Op, n *knode) { operators.FoldEarlyStop(n, op, zero, stop) },
		"FoldEarlyStopSequenced": func(op *engine.Op, n *knode) { operators.FoldEarlyStopSequenced(n, op, zero, stop, byKey()) },
		"FoldEarlyStopWithin": func(op *engine.Op, n *knode) {
			operators.FoldEarlyStopWithin(n, op, zero, stop, operators.Retain{Keys: 3})
		},
		"FirstSequenced": func(op *engine.Op, n *knode) {
			operators.FirstSequenced(n, op, operators.Sequenced(func(k int) (int, uint64) { return 0, uint64(bomb(10 * k)) }))
		},
	} {
		for _, alone := range []bool{false, true} {
			g := newTestGraph()
			s := g.NewLocation("here")
			in, root := port.NewKeyedInput[int, int](s, engine.NewOp(s, "in", ""))
			op := engine.NewOp(s, name, "")
			build(op, root)
			g.Start(t.Context())
			ks, vs := []int{1, 2, 3, 4}, []int{10, 20, culprit, 40}
			if alone {
				for i, k := range ks {
					in.Send(t.Context(), k, vs[i])
				}
			} else {
				in.SendBatch(t.Context(), ks, vs)
			}
			g.Stop()
			err := g.Wait()
			if p, ok := err.(*engine.Panic); !ok || p.Op != op || !p.HasKey || p.Key != 3 {
				t.Errorf("%s, alone: %v: %#v, want a panic in it with key 3", name, alone, err)
			}
		}
	}
}
