package port

import (
	"context"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/live"
)

// A noting simulation lets each caller act at once. It notes what callers announce before they act, and
// what they touch.
type noting struct {
	says    []string
	touched map[engine.Object]engine.Access
}

func (n *noting) Turn(t engine.Turn) error { n.says = append(n.says, t.Action); return nil }

func (n *noting) Touch(o engine.Object, a engine.Access) { n.touched[o] |= a }

func (n *noting) Gives(engine.Object) {}

func (n *noting) Kept() error { return nil }

func (n *noting) Used(engine.Use) {}

// clear forgets what was noted.
func (n *noting) clear() { n.says, n.touched = nil, make(map[engine.Object]engine.Access) }

// newNotingGraph returns a graph that looks simulated to its ports.
func newNotingGraph() (*engine.Graph, *noting) {
	n := &noting{}
	n.clear()
	return live.Drive(engine.New(engine.Settings{Queue: 64, Buffer: 64, Turns: n, Wrap: func(p *engine.Panic) error { return p }})), n
}

// TestCallersTouch has a caller count the entries of an output and take the next one. The caller must
// announce what it does and which part of the output this concerns: of two actions that a search
// considers independent, it tries only one order.
func TestCallersTouch(t *testing.T) {
	g, n := newNotingGraph()
	s := g.NewLocation("here")
	in, node := NewEntryInput[int, int](s, engine.NewOp(s, "in", ""), nil)
	out := NewEntryOutput(node, engine.NewOp(s, "out", ""))
	g.Start(t.Context())
	if err := in.Send(t.Context(), 1, 10); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		do      func()
		says    string
		touches engine.Access
	}{
		{func() { out.Len() }, "count", engine.Reads},
		{func() { out.TakeNext(t.Context()) }, "take the next of", engine.Takes | engine.Writes},
	} {
		n.clear()
		x.do()
		if !slices.Equal(n.says, []string{x.says}) || n.touched[out.op.Object(0)] != x.touches {
			t.Errorf("a caller says %q and touches %d, want %q and %d", n.says, n.touched[out.op.Object(0)], x.says, x.touches)
		}
	}
}

// TestForgetTouches has an input forget a key. A caller that sends the key again is told whether it
// existed before, so the order matters, and the step must announce it. The remaining keys are not
// affected.
func TestForgetTouches(t *testing.T) {
	for _, x := range []struct {
		name   string
		forget func(in *KeyedInput[int, int], n *engine.KeyedNode[int, int])
	}{
		{"ForgetGone", ForgetGone[int, int]},
		{"ForgetOn", func(in *KeyedInput[int, int], n *engine.KeyedNode[int, int]) {
			ForgetOn(in, n, func(k int) bool { return k == 1 })
		}},
	} {
		g, n := newNotingGraph()
		s := g.NewLocation("here")
		in, _ := NewEntryInput[int, int](s, engine.NewOp(s, "in", ""), nil)
		node := engine.NewKeyedNode[int, int](s.Top())
		node.Revises, node.Forgets = true, true
		x.forget(in, node)
		g.Start(t.Context())
		for k := range 3 {
			if err := in.Send(t.Context(), k, k); err != nil {
				t.Fatal(err)
			}
		}
		n.clear()
		node.Push(&engine.Batch[int, int]{K: []int{0, 1}, V: []int{0, 0}, Gone: []bool{false, true}})
		for k, want := range []engine.Access{0, engine.Writes, 0} {
			if got := n.touched[in.Op.Lane(engine.KeyDigest(k))]; got != want {
				t.Errorf("%s of key 1 touches %d of key %d, want %d", x.name, got, k, want)
			}
			if got := in.Send(t.Context(), k, k); (got == nil) != (k == 1) {
				t.Errorf("%s of key 1: key %d is sent again: %v", x.name, k, got)
			}
		}
	}
}

// TestCallsAgain repeats a call, as after a crash. It waits before calls that were requested later. If
// more calls wait than may run at once, the order of requests matters. Otherwise it matters only to a
// caller that reads all calls.
func TestCallsAgain(t *testing.T) {
	for limit, want := range map[int]engine.Access{2: engine.Takes | engine.Writes, 10: engine.Adds} {
		g, n := newNotingGraph()
		s := g.NewLocation("here")
		node := engine.NewKeyedNode[int, int](s.Top())
		MapAsync(node, engine.NewOp(s, "MapAsync", ""), func(_ context.Context, _, v int) int { return v }, limit)
		calls := s.OutputsInOrder[0].(*async[int, int, int])
		for k := range 3 {
			engine.AppendEntry(&calls.step, true, k, 10*k, 0)
		}
		g.Start(t.Context())
		calls.Ask()
		id := calls.CallID(0)
		again := calls.Again(0)
		calls.CallNow(0, true)
		n.clear()
		again()
		if first := calls.CallText(0); first != "0:0" || calls.CallID(0) != id || len(calls.simulated.ids) != 3 {
			t.Errorf("of %d calls that wait the first one is %s", len(calls.simulated.ids), first)
		}
		if n.touched[calls.op.Object(id)] != engine.Writes || n.touched[calls.op.Object(0)] != want {
			t.Errorf("with a limit of %d it touches %v, want %d of all calls", limit, n.touched, want)
		}
	}
}
