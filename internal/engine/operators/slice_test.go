package operators_test

import (
	"fmt"
	"testing"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/live"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// TestReasonsOfCuts puts data into a slice in each possible way. It fails for an operator that does not
// report the reason of the cut: a simulation would name only the slice where it cuts, and count no
// choice for the reason.
func TestReasonsOfCuts(t *testing.T) {
	for name, build := range map[string]func(r *engine.Region, op func() *engine.Op, n *knode){
		"elements": func(r *engine.Region, op func() *engine.Op, n *knode) {
			values := operators.Values(n, op())
			operators.BatchStream(r, values, engine.NewOp(n.Loc, "BatchStream", "as I say"))
		},
		"elements with keys": func(r *engine.Region, op func() *engine.Op, n *knode) {
			operators.BatchKeyed(r, n, engine.NewOp(n.Loc, "BatchKeyed", "as I say"), false)
		},
		"entries that are forgotten": func(r *engine.Region, op func() *engine.Op, n *knode) {
			lives := operators.FirstWithin(n, op(), operators.Retain{Keys: 1})
			operators.BatchKeyed(r, lives, engine.NewOp(n.Loc, "BatchEntries", "as I say"), true)
		},
		"a value": func(r *engine.Region, op func() *engine.Op, n *knode) {
			count := operators.KeyCount(n, op())
			operators.Snapshot(r, count, engine.NewOp(n.Loc, "Snapshot", "as I say"))
		},
		"a content": func(r *engine.Region, op func() *engine.Op, n *knode) {
			first := operators.First(n, op())
			operators.SnapshotEntries(r, first, engine.NewOp(n.Loc, "SnapshotEntries", "as I say"))
		},
	} {
		g := newTestGraph()
		s := g.NewLocation("here")
		_, root := port.NewKeyedInput[int, int](s, engine.NewOp(s, "in", ""))
		r := engine.NewSlice(s)
		build(r, func() *engine.Op { return engine.NewOp(s, "before", "") }, root)
		if got := r.Whys(); got != `: "as I say"` {
			t.Errorf("%s: the slice is cut %q", name, got)
		}
	}
}

// TestWithoutKeysIsNoNews has a slice read sums without those of two constant keys. It fails if a change
// of such a key, which the slice cannot observe, runs the slice.
func TestWithoutKeysIsNoNews(t *testing.T) {
	g := newTestGraph()
	s := g.NewLocation("here")
	op := func(name string) *engine.Op { return engine.NewOp(s, name, "") }
	in, root := port.NewKeyedInput[int, int](s, op("in"))
	sums := operators.KFold(root, op("KFold"), func() int { return 0 }, sum)
	some := operators.KWithout(sums, operators.Constant(s, nil, []int{1, 4}), op("KWithout"))
	r := engine.NewSlice(s)
	now := operators.IntoSingleton(operators.SnapshotEntries(r, some, op("SnapshotEntries")), op("IntoSingleton"), viewText)
	var got []string
	now.To(func(x string) { got = append(got, x) })
	g.Start(t.Context())
	for _, k := range []int{1, 2, 4, 1, 3, 2, 4} {
		if err := in.Send(t.Context(), k, 10); err != nil {
			t.Fatal(err)
		}
	}
	g.Stop()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"2:10 ", "2:10 3:10 ", "2:20 3:10 "}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the runs saw %q, want %q", got, want)
	}
}

// A shows is a watcher that keeps a digest of what each observer saw.
type shows map[uint64]uint64

func (s shows) Observed(_ string, id, what uint64) { s[id] = engine.ChainDigest(s[id], what) }
func (shows) Note(func() string)                   {}
func (shows) Published(_ *engine.Op, value any)    {}

// TestObserversSeeTheOrder sends elements, and values of a key, in two orders to an observer of the
// order, at the top level and in one run of a slice. It fails if the observer does not distinguish the
// orders: a simulation would try only one of them.
func TestObserversSeeTheOrder(t *testing.T) {
	for _, sliced := range []bool{false, true} {
		for _, keyed := range []bool{false, true} {
			saw := func(vs ...int) string {
				got := make(shows)
				g := live.Drive(engine.New(engine.Settings{Queue: 64, Buffer: 1 << 20, Wrap: func(p *engine.Panic) error { return p }, Watch: got}))
				s := g.NewLocation("here")
				op := func(name string) *engine.Op { return engine.NewOp(s, name, "") }
				in, n := port.NewKeyedInput[int, int](s, op("in"))
				if sliced {
					n = operators.BatchKeyed(engine.NewSlice(s), n, op("BatchKeyed"), false)
				}
				if keyed {
					operators.KObserve(n, op("KObserve"))
				} else {
					operators.Observe(operators.Values(n, op("Values")), op("Observe"))
				}
				if _, err := in.SendBatch(t.Context(), make([]int, len(vs)), vs); err != nil {
					t.Fatal(err)
				}
				g.Start(t.Context())
				g.Stop()
				if err := g.Wait(); err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(got)
			}
			one, same, other := saw(1, 2), saw(1, 2), saw(2, 1)
			if one != same || one == other || one == "map[]" {
				t.Errorf("in a slice: %v, keyed: %v: an observer saw %s and %s of one order, and %s of the other", sliced, keyed, one, same, other)
			}
		}
	}
}
