package sim_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/slice"
)

// at explores a program at a level and returns the number of schedules and the distinct results.
func at(t *testing.T, level sim.Level, p program) (n int, got []string) {
	t.Helper()
	all := make(map[string]bool)
	n, executions := sim.ExploreAt(t, level, func(s *sim.Sim) { all[p(bench{s, dataflow.At[Server](s.Flow())})] = true }, false)
	t.Logf("%v: %d schedules in %d executions", level, n, executions)
	return n, slices.Sorted(maps.Keys(all))
}

// TestLevels checks the number of schedules and the possible results at each level. It catches a
// level Engine that allows more or less than the engine's loop can do, and a level Types that lacks
// something the loop can do.
func TestLevels(t *testing.T) {
	tests := []struct {
		name          string
		p             program
		types, engine int
		want          []string // at Engine; nil where only the count is asserted
	}{
		{"a plain service", func(b bench) string {
			out := keyedsingleton.Output(keyedsingleton.Map(b.entries("xs", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10), func(x int) int { return -x }), "out")
			b.Start()
			b.Quiesce()
			x, _ := out.Get(9)
			return fmt.Sprint(x)
		}, 1, 1, []string{"-10"}},
		{"a batch of 3", func(b bench) string {
			return run(b, emit(list(slice.Batch(slice.At(b.at), b.stream("xs", 1, 2, 3), tried))))
		}, 4, 4, nil},
		{"an unordered batch of 3", func(b bench) string {
			return run(b, emit(set(slice.BatchEntries(slice.At(b.at), b.entries("xs", 1, 2, 3), tried))))
		}, 13, 4, []string{"[{0:1 1:2 2:3}]", "[{0:1 1:2} {2:3}]", "[{0:1} {1:2 2:3}]", "[{0:1} {1:2} {2:3}]"}},
		{"two slices", func(b bench) string {
			x := slice.Batch(slice.At(b.at), b.stream("x", 1), tried)
			y := slice.Batch(slice.At(b.at), b.stream("y", 2), tried)
			return run(b, dataflow.Output(dataflow.AssumeOrder(dataflow.Merge(slice.Emit(x), slice.Emit(y)), tried), "out"))
		}, 2, 1, []string{"[1 2]"}},
		{"a slice behind another one", func(b bench) string {
			xs := b.stream("x", 1)
			first := slice.Emit(slice.Batch(slice.At(b.at), xs, tried))
			both := slice.At(b.at)
			n := slice.Snapshot(both, dataflow.Count(first), tried)
			return run(b, dataflow.Output(slice.Emit(dataflow.CrossSingleton(slice.Batch(both, xs, tried), n)), "out"))
		}, 2, 1, []string{"[(1, 1)]"}},
		{"a stream and what is made of it", func(b bench) string {
			s := b.stream("xs", 1, 2)
			return run(b, dataflow.Output(dataflow.MergeOrdered(s, dataflow.Map(s, func(x int) int { return 10 * x }), tried), "out"))
		}, 2, 2, []string{"[10 1 20 2]", "[10 20 1 2]"}},
		{"three calls, one at a time", calls(1), 36, 1, []string{"[0 1 2] [0 1 2]"}},
		{"three calls, two at a time", calls(2), 36, 12, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n, all := at(t, sim.Types, test.p)
			if n != test.types {
				t.Errorf("%d schedules at Types, want %d", n, test.types)
			}
			n, got := at(t, sim.Engine, test.p)
			if n != test.engine {
				t.Errorf("%d schedules at Engine, want %d", n, test.engine)
			}
			for _, x := range got {
				if !slices.Contains(all, x) {
					t.Errorf("%s is seen at Engine only", x)
				}
			}
			if test.want != nil && !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// calls makes three calls and returns the order in which they were made and answered.
func calls(limit int) program {
	return func(b bench) string {
		var made []int
		done := keyedsingleton.MapAsync(b.entries("xs", 0, 1, 2), func(_ context.Context, x int) int {
			made = append(made, x)
			return x
		}, keyedsingleton.AsyncOptions{Concurrency: limit})
		got := run(b, dataflow.Output(dataflow.AssumeOrder(keyedsingleton.Values(done), tried), "out"))
		b.Observe(made)
		return got + " " + fmt.Sprint(made)
	}
}
