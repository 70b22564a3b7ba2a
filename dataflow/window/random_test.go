package window_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/dataflow/window/internal/model"
	"github.com/millrace/millrace/internal/long"
	"github.com/millrace/millrace/keyedsingleton"
)

var seedFlag = flag.Uint64("seed", 0, "run only the random sources of this seed")

// seeds calls f for some seeds, or only for the seed given by the -seed flag.
func seeds(t *testing.T, n uint64, f func(t *testing.T, seed uint64)) {
	t.Helper()
	if *seedFlag != 0 {
		f(t, *seedFlag)
		return
	}
	if !long.Searches() {
		n = (n + 4) / 5
	}
	for seed := range n {
		if f(t, seed+1); t.Failed() {
			t.Fatalf("rerun with: go test ./dataflow/window -run %s -seed %d", t.Name(), seed+1)
		}
	}
}

// randomSource returns n events, one every three seconds, nearly in order.
func randomSource(rng *rand.Rand, n, first int, disorder int) (es []model.Event) {
	for i := range n {
		es = append(es, model.Event{Key: string(rune('a' + rng.IntN(3))), At: int64(i*3 - rng.IntN(disorder+1)), N: first + i})
	}
	return es
}

func ticksOf(sources [][]model.Event) (all [][]tick) {
	for _, s := range sources {
		var xs []tick
		for _, e := range s {
			xs = append(xs, tick{e.Key, int(e.At), e.N})
		}
		all = append(all, xs)
	}
	return all
}

// spansOf lists the events of each span of the model.
func spansOf(m map[model.Span][]model.Event) (lines []string) {
	for s, es := range m {
		var ns []int
		for _, e := range es {
			ns = append(ns, e.N)
		}
		slices.Sort(ns)
		lines = append(lines, fmt.Sprintf("%s[%d,%d)=%v", s.Key, s.From, s.To, ns))
	}
	slices.Sort(lines)
	return lines
}

func whoIsIn(closed dataflow.KeyedSingleton[window.Key[string], who, server, boundedValue]) text {
	return dataflow.WeakenOrder(dataflow.Map(keyedsingleton.Entries(closed), func(e dataflow.Entry[window.Key[string], who]) string {
		return fmt.Sprintf("%s=%v", spanned(e.Key), e.Value)
	}))
}

// TestModel compares folds, sessions, the sorted order and the late events of random sources with
// the model, for any size of batches and any interleaving of sources.
func TestModel(t *testing.T) {
	const anyOrder = "a list of numbers is sorted"
	seeds(t, 20, func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var sources [][]model.Event
		for i := range 3 {
			sources = append(sources, randomSource(rng, 30, 100*i, 12))
		}
		confirm := 1 + rng.IntN(3)
		var cuts [][]model.Cut
		var late []string
		for _, s := range sources {
			c, l := model.Stamp(s, 6, confirm, func(int) int { return 1 })
			cuts = append(cuts, c)
			for _, e := range l {
				late = append(late, fmt.Sprintf("late %s%d@%d", e.Key, e.N, e.At))
			}
		}
		merged := model.Merge(cuts, func(int) int { return 0 })
		var sorted []string
		for _, e := range model.Sort(merged) {
			sorted = append(sorted, fmt.Sprintf("sorted %s%d@%d", e.Key, e.N, e.At))
		}
		slices.Sort(late)
		want := strings.Join([]string{
			fmt.Sprint(spansOf(model.Fold(merged, 10, 10))), fmt.Sprint(spansOf(model.Fold(merged, 10, 5))),
			fmt.Sprint(spansOf(model.Sessions(merged, 4))), fmt.Sprint(late), fmt.Sprint(sorted),
		}, "\n")
		for range 4 {
			outs := produce(t, ticksOf(sources), 1+rng.IntN(8), func(xs []ticks) []text {
				d := window.Disorder{Slack: 6 * time.Second, Confirm: confirm}
				a, lateA := window.Stamp(xs[0], at, d)
				b, lateB := window.Stamp(xs[1], at, d)
				c, lateC := window.Stamp(xs[2], at, d)
				all := dataflow.Merge(dataflow.Merge(a, b), c)
				byKey := dataflow.KeyBy(all, key)
				none := func() who { return nil }
				tumbling, _ := window.FoldCommutative(byKey, window.Every(10*time.Second), none, (*who).add, anyOrder)
				sliding, _ := window.FoldCommutative(byKey, window.Sliding(10*time.Second, 5*time.Second), none, (*who).add, anyOrder)
				sessions, _ := window.Sessions(byKey, 4*time.Second, none, (*who).add, (*who).merge, anyOrder)
				sorted := window.SortBy(all, func(a, b tick) int { return cmp.Compare(a.N, b.N) }, "each has a number of its own")
				return []text{whoIsIn(tumbling), whoIsIn(sliding), whoIsIn(sessions), said("late", dataflow.Merge(dataflow.Merge(lateA, lateB), lateC)), said("sorted", sorted)}
			}, nil)
			var got []string
			for i, lines := range outs {
				if i < 4 {
					slices.Sort(lines)
				}
				got = append(got, fmt.Sprint(lines))
			}
			if g := strings.Join(got, "\n"); g != want {
				t.Errorf("seed %d, confirm %d:\n got %s\nwant %s", seed, confirm, g, want)
				return
			}
		}
	})
}

// TestModelJoin compares joins with the model.
func TestModelJoin(t *testing.T) {
	seeds(t, 30, func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 2))
		sources := [][]model.Event{randomSource(rng, 60, 0, 6), randomSource(rng, 60, 100, 6)}
		one := func(int) int { return 1 }
		left, _ := model.Stamp(sources[0], 6, 1, one)
		right, _ := model.Stamp(sources[1], 6, 1, one)
		pairs, alone := model.Join(left, right, 5, 3, rng.IntN)
		at := map[int]int64{}
		for _, s := range sources {
			for _, e := range s {
				at[e.N] = e.At
			}
		}
		var inner, outer []string
		for _, p := range pairs {
			inner = append(inner, fmt.Sprintf("(%d,%d)@%d", p.A, p.B, max(at[p.A], at[p.B])))
		}
		outer = slices.Clone(inner)
		for _, n := range alone {
			outer = append(outer, fmt.Sprintf("(%d,-)@%d", n, at[n]+3))
		}
		want := report([][]string{inner, outer}, false)
		for range 4 {
			outs := produce(t, ticksOf(sources), 1+rng.IntN(8), func(xs []ticks) []text {
				return append(joined(slack(6), near(5, 3))(xs), leftJoined(slack(6), near(5, 3))(xs)...)
			}, nil)
			if got := report(outs, false); got != want {
				t.Errorf("seed %d:\n got %s\nwant %s", seed, got, want)
				return
			}
		}
	})
}
