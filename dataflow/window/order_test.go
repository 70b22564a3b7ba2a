package window_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
)

// who lists the numbers of the events in a session or span, sorted.
type who []int

func (w *who) add(x tick) {
	*w = append(slices.Clone(*w), x.N)
	slices.Sort(*w)
}

func (w *who) merge(other who) {
	*w = append(slices.Clone(*w), other...)
	slices.Sort(*w)
}

func sessions(d window.Disorder, gap int) program {
	return func(xs []ticks) []text {
		es, late := window.Stamp(xs[0], at, d)
		closed, _ := window.Sessions(dataflow.KeyBy(es, key), time.Duration(gap)*time.Second, func() who { return nil }, (*who).add, (*who).merge, "a list of numbers is sorted")
		return []text{dataflow.WeakenOrder(dataflow.Map(keyedsingleton.Entries(closed), func(e dataflow.Entry[window.Key[string], who]) string {
			return fmt.Sprintf("%s=%v", spanned(e.Key), e.Value)
		})), said("late", late)}
	}
}

// TestSessions checks cases of sessions that other systems had wrong.
func TestSessions(t *testing.T) {
	for _, x := range []struct {
		name   string
		source []tick
		d      window.Disorder
		gap    int
		want   string
	}{
		{"37 late by its time", []tick{{"a", 0, 1}, {"b", 6, 2}, {"a", 3, 3}}, slack(0), 5, "a[0,5)=[1] b[6,11)=[2] | late a3@3"},
		{"38 touching", of("a", 1, 3), slack(0), 2, "a[1,3)=[1] a[3,5)=[2] | "},
		{"39 bridged", of("a", 1, 9, 5), slack(9), 5, "a[1,14)=[1 2 3] | "},
		{"extended to the front", of("a", 9, 6, 30), slack(9), 5, "a[30,35)=[3] a[6,14)=[1 2] | "},
		{"many", of("a", 10, 20, 30, 15, 25, 40), slack(30), 6, "a[10,36)=[1 2 3 4 5] a[40,46)=[6] | "},
	} {
		t.Run(x.name, func(t *testing.T) {
			check(t, [][]tick{x.source}, want{report: x.want}, sessions(x.d, x.gap))
		})
	}
}

// TestSort checks that events come in the order of their times, and events of one time in the
// order in which they arrived.
func TestSort(t *testing.T) {
	check(t, [][]tick{of("a", 5, 3, 4, 3, 9, 1)}, want{report: "sorted a2@3 sorted a4@3 sorted a3@4 sorted a1@5 sorted a5@9", inOrder: true}, func(xs []ticks) []text {
		es, _ := window.Stamp(xs[0], at, slack(2))
		return []text{said("sorted", window.Sort(es))}
	})
}

func sortedBy(xs []ticks) []text {
	left, _ := window.Stamp(xs[0], at, slack(2))
	right, _ := window.Stamp(xs[1], at, slack(0))
	byKey := func(a, b tick) int { return cmp.Compare(a.Key, b.Key) }
	return []text{said("sorted", window.SortBy(dataflow.Merge(left, right), byKey, "of one time there is one tick of each key"))}
}

// TestSortBy checks that two sources have the same order in every schedule.
func TestSortBy(t *testing.T) {
	sources := [][]tick{of("a", 3, 1, 4), of("b", 1, 4)}
	w := want{report: "sorted a2@1 sorted b1@1 sorted a1@3 sorted a3@4 sorted b2@4", inOrder: true}
	schedules := sim.Exhaustive(t, func(s *sim.Sim) {
		if got := report(simulated(s, sources, sortedBy, true), true); got != w.report {
			s.Errorf("got %s", got)
		}
	})
	w.schedules = schedules
	check(t, sources, w, sortedBy)
}

// TestTrailing counts the events of the last five seconds.
func TestTrailing(t *testing.T) {
	check(t, [][]tick{{{"a", 1, 1}, {"a", 6, 2}, {"a", 3, 3}, {"b", 5, 1}, {"a", 20, 4}, {"a", 24, 5}, {"a", 25, 6}}}, want{
		report: "a 1@1 of 1 a 2@6 of 2 a 3@3 of 2 a 4@20 of 1 a 5@24 of 2 a 6@25 of 2 b 1@5 of 1",
	}, func(xs []ticks) []text {
		es, _ := window.Stamp(xs[0], at, slack(4))
		recent := window.Trailing(dataflow.KeyBy(es, key), 5*time.Second, func() int { return 0 }, func(n *int, _ tick) { *n++ }, func(n *int, _ tick) { *n-- })
		return []text{keyedLines(recent, func(e window.Event[dataflow.Pair[tick, int]]) string {
			return fmt.Sprintf("%d@%s of %d", e.Value.First.N, inSeconds(e.At), e.Value.Second)
		})}
	})
}
