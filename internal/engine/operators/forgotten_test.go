package operators_test

import (
	"testing"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// TestGoneIsForThoseWhoAsk passes forgotten keys through an operator, to a consumer that needs to know
// which keys are gone, or to one that does not. It fails for an operator that always asks for them:
// forgotten keys would be collected for no consumer.
func TestGoneIsForThoseWhoAsk(t *testing.T) {
	for name, pass := range map[string]func(op *engine.Op, n *knode) *knode{
		"KMap": func(op *engine.Op, n *knode) *knode { return operators.KMap(n, op, func(v int) int { return v }) },
		"KMapWithKey": func(op *engine.Op, n *knode) *knode {
			return operators.KMapWithKey(n, op, func(_, v int) int { return v })
		},
		"KFilterMap": func(op *engine.Op, n *knode) *knode {
			return operators.KFilterMap(n, op, func(_, v int) (int, bool) { return v, true })
		},
		"KInspect": func(op *engine.Op, n *knode) *knode { return operators.KInspect(n, op, func(_, _ int) {}) },
		"KFork": func(op *engine.Op, n *knode) *knode {
			a, _ := operators.KFork(n, op, func(v int) (int, int, bool) { return v, v, true })
			return a
		},
	} {
		for _, asks := range []bool{false, true} {
			g := newTestGraph()
			s := g.NewLocation("here")
			op := func(name string) *engine.Op { return engine.NewOp(s, name, "") }
			_, root := port.NewKeyedInput[int, int](s, op("in"))
			kept := operators.FirstWithin(root, op("FirstWithin"), operators.Retain{Keys: 1})
			passed := pass(op(name), kept)
			if asks {
				port.NewEntryOutput(passed, op("out"))
			} else {
				operators.Lives(passed, op("Lives"))
			}
			g.Start(t.Context())
			if kept.WantsGone() != asks {
				t.Errorf("%s: whether it asks for keys that are gone is %v, want %v", name, !asks, asks)
			}
			g.Stop()
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
