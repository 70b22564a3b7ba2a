package operators_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/live"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// newTestGraph returns a graph like those of package dataflow.
func newTestGraph() *engine.Graph {
	return live.Drive(engine.New(engine.Settings{Queue: 64, Buffer: 1 << 20, Wrap: func(p *engine.Panic) error { return p }}))
}

// A drawn is a chain of operators over ints, drawn from a seed, and what each received.
type drawn struct {
	ops  []*engine.Op
	seen map[int][]int // by operator, the elements that its function was called with
	fail func(op, x int)
}

func (d *drawn) saw(op, x int) {
	if d.fail != nil {
		d.fail(op, x)
	}
	d.seen[op] = append(d.seen[op], x)
}

// build adds n operators after in, and sometimes two of them after one node.
func (d *drawn) build(r *rand.Rand, s *engine.Location, in *engine.Node[int], n int) {
	d.seen = make(map[int][]int)
	last := []*engine.Node[int]{in}
	for i := range n {
		from := last[len(last)-1]
		if r.IntN(6) == 0 {
			from = last[r.IntN(len(last))]
		}
		var out *engine.Node[int]
		switch k := r.IntN(10) + 1; r.IntN(6) {
		case 0, 1, 2:
			op := engine.NewOp(s, fmt.Sprint("Map ", i), "")
			d.ops = append(d.ops, op)
			out = operators.Map(from, op, func(x int) int { d.saw(i, x); return x*k + 1 })
		case 3:
			op := engine.NewOp(s, fmt.Sprint("Filter ", i), "")
			d.ops = append(d.ops, op)
			out = operators.Filter(from, op, func(x int) bool { d.saw(i, x); return x%(k+1) != 0 })
		case 4:
			op := engine.NewOp(s, fmt.Sprint("Inspect ", i), "")
			d.ops = append(d.ops, op)
			out = operators.Inspect(from, op, func(x int) { d.saw(i, x) })
		case 5:
			op := engine.NewOp(s, fmt.Sprint("FilterMap ", i), "")
			d.ops = append(d.ops, op)
			out = operators.FilterMap(from, op, func(x int) (int, bool) { d.saw(i, x); return x + k, x%3 != 0 })
		}
		last = append(last, out)
	}
}

// TestOperatorsThatShareALoop checks that each function is called with the same elements in the
// same order, whether elements come in batches or one by one, and whichever operators share a loop.
func TestOperatorsThatShareALoop(t *testing.T) {
	ctx := context.Background()
	for seed := range uint64(300) {
		run := func(size int) map[int][]int {
			r := rand.New(rand.NewPCG(seed, 1))
			g := newTestGraph()
			s := g.NewLocation("here")
			in, node := port.NewInput[int](s, engine.NewOp(s, "Input", ""))
			var d drawn
			d.build(r, s, node, 1+r.IntN(9))
			g.Start(ctx)
			xs := make([]int, 100)
			for i := range xs {
				xs[i] = r.IntN(1000)
			}
			for batch := range slices.Chunk(xs, size) {
				if size == 1 {
					if err := in.Send(ctx, batch[0]); err != nil {
						t.Fatal(err)
					}
				} else if _, err := in.SendBatch(ctx, batch); err != nil {
					t.Fatal(err)
				}
			}
			g.Stop()
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			return d.seen
		}
		want := run(1)
		for _, size := range []int{2, 7, 100} {
			got := run(size)
			for op := range max(len(got), len(want)) {
				if !slices.Equal(got[op], want[op]) {
					t.Fatalf("seed %d: operator %d saw %v in batches of %d, and %v one by one", seed, op, got[op], size, want[op])
				}
			}
		}
	}
}

// TestOperatorsTakeTurns checks that each element of a batch passes all operators of a shared
// loop before the next one begins. It fails for operators with a loop each, which give the same
// results, but may make a batch twice as expensive.
func TestOperatorsTakeTurns(t *testing.T) {
	for name, test := range map[string]struct {
		build func(s *engine.Location, n *engine.Node[int], called func(int))
		want  []int
	}{
		"two maps":  {func(s *engine.Location, n *engine.Node[int], called func(int)) { chainOfMaps(s, n, called, 2) }, []int{0, 1, 0, 1}},
		"four maps": {func(s *engine.Location, n *engine.Node[int], called func(int)) { chainOfMaps(s, n, called, 4) }, []int{0, 1, 2, 3, 0, 1, 2, 3}},
		"a map and a filter": {func(s *engine.Location, n *engine.Node[int], called func(int)) {
			operators.Filter(chainOfMaps(s, n, called, 1), engine.NewOp(s, "Filter", ""), func(int) bool { called(1); return true })
		}, []int{0, 1, 0, 1}},
		"a map and a look": {func(s *engine.Location, n *engine.Node[int], called func(int)) {
			see := operators.Inspect(chainOfMaps(s, n, called, 1), engine.NewOp(s, "Inspect", ""), func(int) { called(1) })
			chainOfMaps(s, see, func(int) { called(2) }, 1)
		}, []int{0, 1, 0, 1, 2, 2}},
		"a map and a last look": {func(s *engine.Location, n *engine.Node[int], called func(int)) {
			operators.Inspect(chainOfMaps(s, n, called, 1), engine.NewOp(s, "Inspect", ""), func(int) { called(1) })
		}, []int{0, 1, 0, 1}},
	} {
		g := newTestGraph()
		s := g.NewLocation("here")
		in, node := port.NewInput[int](s, engine.NewOp(s, "Input", ""))
		var got []int
		test.build(s, node, func(op int) { got = append(got, op) })
		g.Start(t.Context())
		if _, err := in.SendBatch(t.Context(), []int{1, 2}); err != nil {
			t.Fatal(err)
		}
		g.Stop()
		if err := g.Wait(); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: called in the order %v (%v), want %v", name, got, err, test.want)
		}
	}
}

// chainOfMaps adds a number of maps after n. Each calls called with its index.
func chainOfMaps(s *engine.Location, n *engine.Node[int], called func(int), number int) *engine.Node[int] {
	for i := range number {
		n = operators.Map(n, engine.NewOp(s, "Map", ""), func(x int) int { called(i); return x })
	}
	return n
}

// TestPanicInASharedLoop checks that a panic names the operator whose function it was, even if
// several share a loop.
func TestPanicInASharedLoop(t *testing.T) {
	ctx := context.Background()
	for seed := range uint64(300) {
		for _, one := range []bool{true, false} {
			r := rand.New(rand.NewPCG(seed, 2))
			g := newTestGraph()
			s := g.NewLocation("here")
			in, node := port.NewInput[int](s, engine.NewOp(s, "Input", ""))
			n := 1 + r.IntN(9)
			culprit, calls, failed := r.IntN(n), 0, false
			d := drawn{fail: func(op, x int) {
				if op == culprit {
					if calls++; calls == 3 {
						failed = true
						panic("as drawn")
					}
				}
			}}
			d.build(r, s, node, n)
			g.Start(ctx)
			xs := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
			if one {
				for _, x := range xs {
					in.Send(ctx, x)
				}
			} else {
				in.SendBatch(ctx, xs)
			}
			g.Stop()
			err := g.Wait()
			if !failed {
				if err != nil {
					t.Fatal(err)
				}
				continue
			}
			p, ok := err.(*engine.Panic)
			if !ok || p.Op != d.ops[culprit] || p.Value != "as drawn" {
				t.Fatalf("seed %d, one by one: %v: %s panicked, and the error is %v", seed, one, d.ops[culprit].Name, err)
			}
		}
	}
}

// TestPanicAmongMaps checks that a panic names the map whose function it was. Two maps share a loop, and four.
func TestPanicAmongMaps(t *testing.T) {
	ctx := context.Background()
	for n := 1; n <= 6; n++ {
		for culprit := range n {
			for _, send := range []func(in *port.Input[int]){
				func(in *port.Input[int]) { in.Send(ctx, 1) },
				func(in *port.Input[int]) { in.SendBatch(ctx, []int{1, 2}) },
			} {
				g := newTestGraph()
				s := g.NewLocation("here")
				in, node := port.NewInput[int](s, engine.NewOp(s, "Input", ""))
				var maps []*engine.Op
				for i := range n {
					op := engine.NewOp(s, "Map", "")
					maps = append(maps, op)
					node = operators.Map(node, op, func(x int) int {
						if i == culprit {
							panic("of one map")
						}
						return x + 1
					})
				}
				g.Start(ctx)
				send(in)
				g.Stop()
				if p, ok := g.Wait().(*engine.Panic); !ok || p.Op != maps[culprit] {
					t.Errorf("map %d of %d panicked, and the error is %v", culprit, n, p)
				}
			}
		}
	}
}

// TestSendAllocatesNothing checks that a step that emits nothing and cuts nothing allocates nothing.
func TestSendAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	g := newTestGraph()
	s := g.NewLocation("here")
	in, node := port.NewInput[int](s, engine.NewOp(s, "Input", ""))
	sum := 0
	operators.Inspect(operators.Filter(operators.Map(node, engine.NewOp(s, "Map", ""), func(x int) int { return x + 1 }), engine.NewOp(s, "Filter", ""), func(x int) bool { return x%2 == 0 }),
		engine.NewOp(s, "Inspect", ""), func(x int) { sum += x })
	g.Start(ctx)
	if n := testing.AllocsPerRun(1000, func() { in.Send(ctx, 1) }); n != 0 {
		t.Errorf("a send allocates %v times", n)
	}
	g.Stop()
	if err := g.Wait(); err != nil || sum == 0 {
		t.Error(err, sum)
	}
}
