package dataflow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// TestCases runs conformance cases. The location is idle whenever something is sent, so
// everything sent at once is one step. A case is sent in steps; got collects the
// arguments of note.
func TestCases(t *testing.T) {
	tests := []struct {
		name  string
		build func(at server, s numbers, note func(any))
		steps [][]int
		want  string
	}{{
		"C8: a repeat in a later step is one, too",
		func(_ server, s numbers, note func(any)) {
			dataflow.ForEach(dataflow.Unique(s), func(x int) { note(x) })
		},
		[][]int{{1, 1, 2}, {1}, {3, 2}},
		"1 2 3",
	}, {
		"C9: in a slice repeats are forgotten with the run, one by one",
		func(at server, s numbers, note func(any)) {
			dataflow.ForEach(slice.Emit(dataflow.Unique(slice.Batch(slice.At(at), s, why))), func(x int) { note(x) })
		},
		[][]int{{1}, {1}},
		"1 1",
	}, {
		"C9: in a slice repeats are forgotten with the run, at once",
		func(at server, s numbers, note func(any)) {
			dataflow.ForEach(slice.Emit(dataflow.Unique(slice.Batch(slice.At(at), s, why))), func(x int) { note(x) })
		},
		[][]int{{1, 1}},
		"1",
	}, {
		"C11 and C12: whatever a retry repeats, Unique gives once and Max does not see",
		func(_ server, s numbers, note func(any)) {
			retried := dataflow.AssumeRepeats(dataflow.FlatMap(s, func(x int, emit func(int)) { emit(x); emit(x) }))
			dataflow.ForEach(dataflow.Unique(retried), func(x int) { note(x) })
			optional.Map(dataflow.Max(retried), func(x int) int { note(fmt.Sprint("max ", x)); return x })
		},
		[][]int{{1}, {1, 1}, {2}, {2}},
		"1 max 1 2 max 2",
	}, {
		"C13: the largest of nothing is none, and some from the first element on",
		func(at server, s numbers, note func(any)) {
			whole := optional.IntoSingleton(dataflow.Max(s))
			dataflow.ForEach(slice.Emit(singleton.IntoStream(slice.Snapshot(slice.At(at), whole, why))), func(m dataflow.Maybe[int]) { note(m) })
		},
		[][]int{{3}, {1}, {5, 4}},
		"none 3 5",
	}, {
		"A15: presence never returns to none",
		func(_ server, s numbers, note func(any)) {
			singleton.Map(optional.IsSome(dataflow.Max(s)), func(some bool) string { note(some); return "" })
		},
		[][]int{{1}, {0}, {5}},
		"false true",
	}, {
		"D8: a function that keeps order keeps the threshold",
		func(_ server, s numbers, note func(any)) {
			twice := singleton.MapGrowing(dataflow.Count(s), func(n int) int { return 2 * n }, "twice keeps order")
			dataflow.ForEach(singleton.Threshold(twice, 5), func(x int) { note(x) })
		},
		[][]int{{0, 0}, {0}, {0}},
		"5",
	}, {
		"D9: a threshold is crossed once, one by one",
		func(_ server, s numbers, note func(any)) {
			dataflow.ForEach(singleton.Threshold(dataflow.Count(s), 3), func(x int) { note(x) })
		},
		[][]int{{0}, {0}, {0}, {0}, {0}},
		"3",
	}, {
		"D9: a threshold is crossed once, jumped over",
		func(_ server, s numbers, note func(any)) {
			dataflow.ForEach(singleton.Threshold(dataflow.Count(s), 3), func(x int) { note(x) })
		},
		[][]int{{0, 0, 0, 0, 0}},
		"3",
	}, {
		"D9: a threshold that is not reached gives nothing",
		func(_ server, s numbers, note func(any)) {
			dataflow.ForEach(singleton.Threshold(dataflow.Count(s), 3), func(x int) { note(x) })
		},
		[][]int{{0, 0}},
		"",
	}, {
		"D9: a threshold reached from the start, and read by what begins at the start",
		func(_ server, s numbers, note func(any)) {
			singleton.Map(dataflow.Count(singleton.Threshold(dataflow.Count(s), 0)), func(n int) int { note(n); return n })
		},
		[][]int{{0}},
		"0 1",
	}, {
		"D9: in a slice a threshold is that of the run",
		func(at server, s numbers, note func(any)) {
			tick := slice.At(at)
			largest := dataflow.Count(slice.Batch(tick, s, why))
			dataflow.ForEach(slice.Emit(singleton.Threshold(largest, 2)), func(x int) { note(x) })
			all := slice.Snapshot(slice.At(at), dataflow.Count(s), why)
			dataflow.ForEach(slice.Emit(singleton.Threshold(all, 3)), func(int) { note("all") })
			dataflow.ForEach(singleton.Threshold(dataflow.Count(dataflow.Of(at, 7, 8)), 2), func(int) { note("constant") })
		},
		[][]int{{0}, {0, 0}, {0}},
		"constant 2 all all",
	}, {
		"D11: a slice runs when a value goes away, and sees that it has",
		func(at server, s numbers, note func(any)) {
			last := dataflow.Reduce(s, func(last *int, x int) { *last = x })
			even := optional.Filter(last, func(x int) bool { return x%2 == 0 })
			there := slice.SnapshotOptional(slice.At(at), even, why)
			whole := optional.IntoSingleton(there)
			dataflow.ForEach(slice.Emit(singleton.IntoStream(whole)), func(m dataflow.Maybe[int]) { note(m) })
		},
		[][]int{{1}, {2}, {3}, {5}, {4}},
		"2 none 4",
	}, {
		"F9: what is fed back through state is in the same place",
		func(at server, s numbers, note func(any)) {
			tick := slice.At(at)
			before, keep := slice.State(tick, 0)
			sum := dataflow.Sum(slice.Batch(tick, s, why))
			next := singleton.Map(singleton.Zip(before, sum), func(p dataflow.Pair[int, int]) int { return p.First + p.Second })
			keep(next)
			dataflow.ForEach(slice.Emit(singleton.IntoStream(next)), func(x int) { note(x) })
		},
		[][]int{{1, 2}, {3}, {4}},
		"3 6 10",
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var notes []string
			flow := dataflow.New()
			at := dataflow.At[server](flow)
			in, s := dataflow.Input[int](at, "numbers")
			test.build(at, s, func(x any) { notes = append(notes, fmt.Sprint(x)) })
			inSteps(flow, in, test.steps, func() {})
			if got := strings.Join(notes, " "); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestLimitDoesNotEnd checks that elements beyond the limit are still accepted.
func TestLimitDoesNotEnd(t *testing.T) {
	flow := dataflow.New()
	in, s := dataflow.Input[int](dataflow.At[server](flow), "numbers")
	var got []int
	dataflow.ForEach(dataflow.Limit(s, 2), func(x int) { got = append(got, x) })
	n := singleton.Output(dataflow.Count(s), "n")
	inSteps(flow, in, [][]int{{1}, {2, 3}, {4}}, func() {})
	if all, _ := n.Latest(); all != 4 || !slices.Equal(got, []int{1, 2}) {
		t.Errorf("got %v of %d", got, all)
	}
}
