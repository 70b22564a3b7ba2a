package engine_test

import (
	"testing"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/live"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// A free simulation lets every caller act at once, and records nothing.
type free struct{}

func (free) Turn(engine.Turn) error             { return nil }
func (free) Touch(engine.Object, engine.Access) {}
func (free) Gives(engine.Object)                {}
func (free) Kept() error                        { return nil }
func (free) Used(engine.Use)                    {}
func (free) Observed(string, uint64, uint64)    {}
func (free) Note(func() string)                 {}
func (free) Published(*engine.Op, any)          {}

// compiled returns the location of a simulated graph made by build.
func compiled(t *testing.T, build func(s *engine.Location, op func(name string) *engine.Op)) *engine.Location {
	g := live.Drive(engine.New(engine.Settings{Queue: 64, Buffer: 64, Turns: free{}, Watch: free{}, Wrap: func(p *engine.Panic) error { return p }}))
	s := g.NewLocation("here")
	build(s, func(name string) *engine.Op { return engine.NewOp(s, name, "") })
	g.Start(t.Context())
	return s
}

// TestGathers checks that a step with several records is distinguished from several steps only where
// the state of an operator reaches an observer of the order. Elsewhere a search would make schedules
// that nobody can tell apart.
func TestGathers(t *testing.T) {
	zero := func() int { return 0 }
	add := func(sum *int, x int) { *sum += x }
	for _, x := range []struct {
		name  string
		build func(s *engine.Location, op func(string) *engine.Op)
		want  bool
	}{
		{"a state, and nobody who observes an order", func(s *engine.Location, op func(string) *engine.Op) {
			_, n := port.NewInput[int](s, op("in"))
			port.NewValueOutput(operators.Fold(n, op("Fold"), zero, add), op("out"))
		}, false},
		{"an order, and no state", func(s *engine.Location, op func(string) *engine.Op) {
			_, n := port.NewInput[int](s, op("in"))
			operators.Observe(n, op("Observe"))
		}, false},
		{"an order behind a state", func(s *engine.Location, op func(string) *engine.Op) {
			_, n := port.NewKeyedInput[int, int](s, op("in"))
			operators.KObserve(operators.KFold(n, op("KFold"), zero, add), op("KObserve"))
		}, true},
	} {
		if got := compiled(t, x.build).Gathers(); got != x.want {
			t.Errorf("%s: that steps take several records makes a difference: %v", x.name, got)
		}
	}
}

// TestLoosenedWaits checks that elements whose type gives up an order wait if an operator behind can
// tell the order, and if they do not come in any order already. If they do not wait and should, a
// search misses schedules. If they wait needlessly, it makes each schedule many times.
func TestLoosenedWaits(t *testing.T) {
	type node = engine.Node[int]
	type ops func(name string) *engine.Op
	nobody := func(*node, ops) {}
	remembers := func(n *node, op ops) { operators.Limit(n, op("Limit"), 3) }
	ordered := func(s *engine.Location, op ops) *node {
		_, n := port.NewInput[int](s, op("in"))
		return n
	}
	shuffled := func(then func(n *node, op ops) *node) func(s *engine.Location, op ops) *node {
		return func(s *engine.Location, op ops) *node {
			in, n := port.NewInput[int](s, op("in"))
			in.Shared(false)
			return then(n, op)
		}
	}
	keyed := func(then func(n *engine.KeyedNode[int, int], op ops) *node) func(s *engine.Location, op ops) *node {
		return func(s *engine.Location, op ops) *node {
			_, n := port.NewKeyedInput[int, int](s, op("in"))
			return then(n, op)
		}
	}
	for _, x := range []struct {
		name   string
		before func(s *engine.Location, op ops) *node
		keyed  bool // only the order between keys is given up
		behind func(n *node, op ops)
		want   bool
	}{
		{"nobody reads them", ordered, false, nobody, false},
		{"somebody has one state", ordered, false, remembers, true},
		{"somebody observes their order", ordered, false, func(n *node, op ops) { operators.Observe(n, op("Observe")) }, true},
		{"an output gives them", ordered, false, func(n *node, op ops) { port.NewOutput(n, op("out")) }, true},
		{"they come in any order", shuffled(func(n *node, _ ops) *node { return n }), false, remembers, false},
		{"they come in any order and are turned into others", shuffled(func(n *node, op ops) *node {
			return operators.Map(n, op("Map"), func(x int) int { return x })
		}), false, remembers, false},
		{"they come in any order, which somebody observes", shuffled(func(n *node, op ops) *node {
			return operators.Observe(n, op("Observe"))
		}), false, remembers, true},
		{"they come in any order, and somebody remembers them", shuffled(func(n *node, op ops) *node {
			return operators.Limit(n, op("Limit"), 3)
		}), false, remembers, true},
		{"their keys come in any order", keyed(func(n *engine.KeyedNode[int, int], op ops) *node {
			return operators.Keys(n, op("Keys"))
		}), true, remembers, false},
		{"other keys than theirs come in any order", keyed(func(n *engine.KeyedNode[int, int], op ops) *node {
			return operators.Keys(operators.KRekey(n, op("KRekey"), func(k, v int) int { return v }), op("Keys"))
		}), true, remembers, true},
	} {
		var loose *engine.Op
		s := compiled(t, func(s *engine.Location, op func(string) *engine.Op) {
			n := port.Loose(x.before(s, op), "Unordered", x.keyed)
			loose = n.Op
			x.behind(n, op)
		})
		s.SettleLoose()
		if got := loose.Loose(); got != x.want {
			t.Errorf("%s: they wait: %v", x.name, got)
		}
	}
}
