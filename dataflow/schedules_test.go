package dataflow_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// A walk makes the choices of one schedule, and of the next one in depth-first order.
type walk struct {
	made  []int // the choices
	among []int // the number of alternatives of each choice
	at    int
}

func (w *walk) Choose(n int) int {
	if w.at == len(w.made) {
		w.made, w.among = append(w.made, 0), append(w.among, n)
	}
	if w.among[w.at] != n {
		panic(fmt.Sprintf("choice %d is among %d and was among %d before", w.at, n, w.among[w.at]))
	}
	w.at++
	return w.made[w.at-1]
}

// next moves to the next schedule, and reports whether one exists.
func (w *walk) next() bool {
	w.at = 0
	for i := len(w.made) - 1; i >= 0; i-- {
		if w.made[i]++; w.made[i] < w.among[i] {
			w.made, w.among = w.made[:i+1], w.among[:i+1]
			return true
		}
	}
	return false
}

// A program builds a flow, sends to it, and reports what it did by calling note.
type program func(at server, note func(format string, args ...any))

// schedules runs a program under every schedule. It returns the number of schedules and how often
// each outcome occurred. Each schedule runs twice, with the same outcome.
func schedules(t *testing.T, build program) (n int, outcomes map[string]int) {
	t.Helper()
	outcomes = make(map[string]int)
	w := new(walk)
	for {
		got := outcome(t, w, build)
		w.at = 0
		if again := outcome(t, w, build); again != got {
			t.Fatalf("the choices %v gave %s, then %s", w.made, got, again)
		}
		outcomes[got]++
		if n++; n > 10_000 {
			t.Fatal("too many schedules")
		}
		if !w.next() {
			return n, outcomes
		}
	}
}

func outcome(t *testing.T, w *walk, build program) string {
	t.Helper()
	var notes []string
	flow := dataflow.NewChosen(w)
	build(dataflow.At[server](flow), func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) })
	if err := dataflow.Run(t.Context(), flow); err != nil {
		t.Fatal(err)
	}
	return strings.Join(notes, " ")
}

// from returns a stream of elements that are sent before the start.
func from[T any](at server, name string, xs ...T) dataflow.Stream[T, server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce] {
	in, s := dataflow.Input[T](at, name)
	for _, x := range xs {
		if err := in.Send(context.Background(), x); err != nil {
			panic(err)
		}
	}
	in.Close()
	return s
}

// list returns the elements of a stream in a slice, once in each run of it.
func list[T any](s dataflow.Stream[T, dataflow.Tick[server], bounded, dataflow.TotalOrder, dataflow.ExactlyOnce]) dataflow.Singleton[[]T, dataflow.Tick[server], bounded] {
	return dataflow.Fold(s, func() []T { return nil }, func(acc *[]T, x T) { *acc = append(*acc, x) })
}

func sum(s dataflow.Stream[int, server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]) dataflow.Singleton[int, server, unbounded] {
	return dataflow.Fold(s, func() int { return 0 }, func(acc *int, x int) { *acc += x })
}

// each notes the value of a singleton in each run of its slice.
func each[T any](x dataflow.Singleton[T, dataflow.Tick[server], bounded], note func(string, ...any)) {
	dataflow.ForEach(singleton.IntoStream(x), func(x T) { note("%v", x) })
}

// TestSchedules lists the expected outcomes and number of schedules for programs that are small
// enough to try every schedule.
func TestSchedules(t *testing.T) {
	tests := []struct {
		name  string
		build program
		n     int
		want  []string
	}{{
		// If nothing observes timing, there is nothing to choose.
		name: "no slice",
		build: func(at server, note func(string, ...any)) {
			s := from(at, "xs", 1, 2, 3)
			dataflow.ForEach(dataflow.Map(s, func(x int) int { return 10 * x }), func(x int) { note("%d", x) })
			keyedsingleton.Inspect(keyedstream.Count(dataflow.KeyBy(s, func(x int) int { return x % 2 })), func(int) {})
		},
		n: 1, want: []string{"10 20 30"},
	}, {
		name: "batch of one",
		build: func(at server, note func(string, ...any)) {
			each(list(slice.Batch(slice.At(at), from(at, "xs", 1), "tried")), note)
		},
		n: 1, want: []string{"[1]"},
	}, {
		name: "batch of two",
		build: func(at server, note func(string, ...any)) {
			each(list(slice.Batch(slice.At(at), from(at, "xs", 1, 2), "tried")), note)
		},
		n: 2, want: []string{"[1 2]", "[1] [2]"},
	}, {
		name: "batch of three",
		build: func(at server, note func(string, ...any)) {
			each(list(slice.Batch(slice.At(at), from(at, "xs", 1, 2, 3), "tried")), note)
		},
		n: 4, want: []string{"[1 2 3]", "[1 2] [3]", "[1] [2 3]", "[1] [2] [3]"},
	}, {
		name: "batch of four",
		build: func(at server, note func(string, ...any)) {
			each(dataflow.Count(slice.Batch(slice.At(at), from(at, "xs", 1, 2, 3, 4), "tried")), note)
		},
		n: 8, want: []string{"1 1 1 1", "1 1 2", "1 2 1", "1 3", "2 1 1", "2 2", "3 1", "4"},
	}, {
		// The initial value of a fold counts as a change, so a snapshot may observe it, but never after a later value.
		name: "snapshot of a running sum",
		build: func(at server, note func(string, ...any)) {
			each(slice.Snapshot(slice.At(at), sum(from(at, "xs", 1, 2)), "tried"), note)
		},
		n: 4, want: []string{"0 1 3", "0 3", "1 3", "3"},
	}, {
		// A constant in the slice is no change and adds no choices.
		name: "batch and constant",
		build: func(at server, note func(string, ...any)) {
			tick := slice.At(at)
			rate := dataflow.Count(dataflow.Of(at, "a", "b"))
			batch := slice.Batch(tick, from(at, "xs", 1, 2), "tried")
			each(list(dataflow.CrossSingleton(batch, slice.Snapshot(tick, rate, "constant"))), note)
		},
		n: 2, want: []string{"[(1, 2) (2, 2)]", "[(1, 2)] [(2, 2)]"},
	}, {
		// Two slices are cut independently, each with its own reads, in either order.
		name: "two slices",
		build: func(at server, note func(string, ...any)) {
			s := from(at, "xs", 1, 2)
			each(list(slice.Batch(slice.At(at), s, "tried")), func(f string, x ...any) { note("a"+f, x...) })
			each(list(slice.Batch(slice.At(at), s, "tried")), func(f string, x ...any) { note("b"+f, x...) })
		},
		n: 10, want: []string{
			"a[1 2] b[1 2]", "a[1] a[2] b[1 2]", "a[1] b[1 2] a[2]", "a[1] b[1] a[2] b[2]", "a[1] b[1] b[2] a[2]",
			"b[1 2] a[1 2]", "b[1] a[1 2] b[2]", "b[1] a[1] a[2] b[2]", "b[1] a[1] b[2] a[2]", "b[1] b[2] a[1 2]",
		},
	}, {
		// Each key is in exactly one batch.
		name: "batch of entries",
		build: func(at server, note func(string, ...any)) {
			first := keyedstream.First(dataflow.KeyBy(from(at, "xs", "a1", "a2", "b1"), func(s string) byte { return s[0] }))
			batch := keyedsingleton.Values(slice.BatchEntries(slice.At(at), first, "tried"))
			each(list(dataflow.AssumeOrder(batch, "tried")), note)
		},
		// After a cut, a second value of a key is no change, so there is nothing to choose.
		n: 3, want: []string{"[a1 b1]", "[a1] [b1]"},
	}, {
		// State passes from run to run and counts them.
		name: "state",
		build: func(at server, note func(string, ...any)) {
			tick := slice.At(at)
			total, keep := slice.State(tick, 0)
			now := singleton.Map(singleton.Zip(total, dataflow.Count(slice.Batch(tick, from(at, "xs", 7, 8, 9), "tried"))),
				func(p dataflow.Pair[int, int]) int { return p.First + p.Second })
			keep(now)
			each(now, note)
		},
		n: 4, want: []string{"1 2 3", "1 3", "2 3", "3"},
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n, got := schedules(t, test.build)
			if outs := slices.Sorted(maps.Keys(got)); !slices.Equal(outs, test.want) {
				t.Errorf("outcomes are\n%q, want\n%q", outs, test.want)
			}
			if n != test.n {
				t.Errorf("there are %d schedules, want %d", n, test.n)
			}
		})
	}
}

// TestOneCut checks the rule that makes a slice useful: a batch and a snapshot of one cut agree.
// The pairs of each input with the running sum are (1,1),(2,3) or (1,3),(2,3), never (1,0).
func TestOneCut(t *testing.T) {
	pairs := func(at server, note func(string, ...any)) {
		tick := slice.At(at)
		s := from(at, "xs", 1, 2)
		batch := slice.Batch(tick, s, "tried")
		now := slice.Snapshot(tick, sum(s), "tried")
		dataflow.ForEach(slice.Emit(dataflow.CrossSingleton(batch, now)), func(p dataflow.Pair[int, int]) { note("%v", p) })
	}
	n, got := schedules(t, pairs)
	want := []string{"(1, 1) (2, 3)", "(1, 3) (2, 3)"}
	if outs := slices.Sorted(maps.Keys(got)); !slices.Equal(outs, want) {
		t.Errorf("outcomes are %q, want %q", outs, want)
	}
	// There are two ways to split the elements. In each, the slice may also run before the first
	// element, because the initial sum counts as a change. It emits nothing in that run.
	if n != 4 || got[want[0]] != 2 || got[want[1]] != 2 {
		t.Errorf("there are %d schedules: %v", n, got)
	}
}

// TestTwoInputs sends one element to each of two inputs of one slice: either comes first, or one cut contains both.
func TestTwoInputs(t *testing.T) {
	_, got := schedules(t, func(at server, note func(string, ...any)) {
		tick := slice.At(at)
		l := slice.Batch(tick, from(at, "left", "L"), "tried")
		r := slice.Batch(tick, from(at, "right", "R"), "tried")
		both := singleton.Zip(list(l), list(r))
		each(singleton.Map(both, func(p dataflow.Pair[[]string, []string]) string {
			return strings.Join(append(p.First, p.Second...), "")
		}), note)
	})
	if outs, want := slices.Sorted(maps.Keys(got)), []string{"L R", "LR", "R L"}; !slices.Equal(outs, want) {
		t.Errorf("outcomes are %q, want %q", outs, want)
	}
}

// TestInterleavings checks that two ordered inputs of two elements each have 26 sequences of cuts.
func TestInterleavings(t *testing.T) {
	_, got := schedules(t, func(at server, note func(string, ...any)) {
		tick := slice.At(at)
		l := list(slice.Batch(tick, from(at, "left", "a", "b"), "tried"))
		r := list(slice.Batch(tick, from(at, "right", "x", "y"), "tried"))
		each(singleton.Map(singleton.Zip(l, r), func(p dataflow.Pair[[]string, []string]) string {
			return strings.Join(append(p.First, p.Second...), "")
		}), note)
	})
	if len(got) != 26 {
		t.Errorf("there are %d outcomes, want 26: %q", len(got), slices.Sorted(maps.Keys(got)))
	}
}

// TestEmitIsInTheSameStep feeds one slice from another. In every schedule, the second slice has
// handled what the first emitted when the flow is quiet.
func TestEmitIsInTheSameStep(t *testing.T) {
	_, got := schedules(t, func(at server, note func(string, ...any)) {
		second, first := slice.At(at), slice.At(at) // built in reverse order
		out := slice.Emit(slice.Batch(first, from(at, "xs", 1, 2), "tried"))
		each(list(slice.Batch(second, out, "tried")), note)
	})
	if outs, want := slices.Sorted(maps.Keys(got)), []string{"[1 2]", "[1] [2]"}; !slices.Equal(outs, want) {
		t.Errorf("outcomes are %q, want %q", outs, want)
	}
}
