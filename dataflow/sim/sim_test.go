package sim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// TestReduction compares executions with and without the reduction, which merges what nothing can tell apart: the schedules are
// the same, the executions fewer.
func TestReduction(t *testing.T) {
	tests := []struct {
		name                      string
		f                         program
		schedules, reduced, whole int
	}{
		{"one slice, two inputs of two", func(b bench) string {
			tick := slice.At(b.at)
			x, y := slice.Batch(tick, b.stream("x", 1, 2), tried), slice.Batch(tick, b.stream("y", 3, 4), tried)
			return run(b, emit(list(x)), emit(list(y)))
		}, 26, 26, 48},
		{"one slice, four keys", func(b bench) string {
			return run(b, emit(set(slice.BatchEntries(slice.At(b.at), b.entries("xs", 1, 2, 3, 4), tried))))
		}, 75, 75, 192},
		{"two slices with an input of three each", func(b bench) string {
			x := slice.Batch(slice.At(b.at), b.stream("x", 1, 2, 3), tried)
			y := slice.Batch(slice.At(b.at), b.stream("y", 4, 5, 6), tried)
			return run(b, emit(list(x)), emit(list(y)))
		}, 16, 16, 0},
	}
	for _, test := range tests {
		f := func(s *sim.Sim) { test.f(bench{s, dataflow.At[Server](s.Flow())}) }
		schedules, reduced := sim.Explore(t, f, false)
		same, whole := sim.Explore(t, f, true)
		t.Logf("%s: %d schedules, %d executions, %d without the reduction", test.name, schedules, reduced, whole)
		if schedules != test.schedules || reduced != test.reduced || test.whole != 0 && whole != test.whole {
			t.Errorf("%s: %d schedules in %d and %d executions, want %d in %d and %d", test.name, schedules, reduced, whole, test.schedules, test.reduced, test.whole)
		}
		if same != schedules {
			t.Errorf("%s: %d schedules without the reduction, %d with it", test.name, same, schedules)
		}
	}
}

// TestFailure checks that a failed schedule prints its choices, each with its place and reason, and that these choices run the
// same schedule.
func TestFailure(t *testing.T) {
	f := func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		out := emit(list(slice.Batch(slice.At(b.at), b.stream("xs", 1, 2, 3), "each batch is answered alone")))
		b.Start()
		for _, batch := range sim.Collect(s, out) {
			if slices.Equal(batch, []int{2, 3}) {
				s.Errorf("the batch is %v", batch)
			}
		}
	}
	story, trace := sim.Fails(t, f)
	for _, want := range []string{
		"take 1 from dataflow.Input xs (counts_test.go:", "cut the slice made at sim_test.go:", `"each batch is answered alone"`, "the batch is [2 3]",
	} {
		if !strings.Contains(story, want) {
			t.Errorf("the story does not say %q:\n%s", want, story)
		}
	}
	failed := false
	sim.Replay(t, trace, func(s *sim.Sim) {
		defer func() { failed = true }()
		b := bench{s, dataflow.At[Server](s.Flow())}
		out := emit(list(slice.Batch(slice.At(b.at), b.stream("xs", 1, 2, 3), tried)))
		b.Start()
		if got := fmt.Sprint(sim.Collect(s, out)); got != "[[1] [2 3]]" {
			t.Errorf("the schedule %s gives %s", trace, got)
		}
	})
	if !failed {
		t.Error("the schedule was not replayed")
	}
}

// TestNever is case G1: checking in the middle that something is absent does not hide what would have happened without the
// check.
func TestNever(t *testing.T) {
	lengths := make(map[string]bool)
	sim.Exhaustive(t, func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		in, xs := dataflow.Input[int](b.at, "xs")
		out := emit(list(slice.Batch(slice.At(b.at), xs, tried)))
		b.Start()
		s.Check(in.Send(s.Context(), 1))
		s.Never(func() {
			if got := fmt.Sprint(sim.Collect(s, out)); got != "[[1]]" {
				s.Errorf("got %s", got)
			}
		})
		s.Check(in.Send(s.Context(), 2))
		lengths[fmt.Sprint(sim.Collect(s, out))] = true
	})
	if !lengths["[[1 2]]"] || !lengths["[[1] [2]]"] {
		t.Errorf("after the check there were only %v", lengths)
	}
}

func TestAssume(t *testing.T) {
	n := sim.Exhaustive(t, func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		out := emit(list(slice.Batch(slice.At(b.at), b.stream("xs", 1, 2, 3), tried)))
		b.Start()
		s.Assume(len(sim.Collect(s, out)) == 2)
	})
	if n != 2 {
		t.Errorf("%d schedules have two batches, want 2", n)
	}
}

// TestAliasing checks that the simulator reports an aggregate that is changed in place after a slice emitted it, and names the
// operator.
func TestAliasing(t *testing.T) {
	story, _ := sim.Fails(t, func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		all := dataflow.Fold(b.stream("xs", 1, 2), func() map[int]bool { return map[int]bool{} }, func(acc *map[int]bool, x int) { (*acc)[x] = true })
		emit(slice.Snapshot(slice.At(b.at), all, tried))
		b.Start()
	})
	if !strings.Contains(story, "a value was changed after slice.Emit (") {
		t.Errorf("the story is %q", story)
	}
}

// TestUnsteady checks that a function that depends on anything besides the choices is reported.
func TestUnsteady(t *testing.T) {
	calls := 0
	story, _ := sim.Fails(t, func(s *sim.Sim) {
		calls++
		b := bench{s, dataflow.At[Server](s.Flow())}
		emit(list(slice.Batch(slice.At(b.at), b.stream("xs", make([]int, 2+calls%2)...), tried)))
		emit(list(slice.Batch(slice.At(b.at), b.stream("ys", 1, 2), tried)))
		b.Start()
	})
	if story == "" {
		t.Error("nothing is reported")
	}
}

// TestPanic checks that a panicking function ends the schedule with its StepError.
func TestPanic(t *testing.T) {
	story, _ := sim.Fails(t, func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		dataflow.ForEach(b.stream("xs", 1, 0), func(x int) { _ = 1 / x })
		b.Start()
	})
	if !strings.Contains(story, "dataflow.ForEach (") || !strings.Contains(story, "divide by zero") {
		t.Errorf("the story is %q", story)
	}
}

// TestTimers checks that a timer fires before or after any waiting record, in order of deadlines.
func TestTimers(t *testing.T) {
	got := make(map[string]bool)
	n := sim.Exhaustive(t, func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		in, ks := keyedsingleton.Input[string, time.Duration](b.at, "xs")
		late := keyedsingleton.AfterEach(ks, func(d time.Duration) time.Duration { return d }, tried)
		both := dataflow.Merge(keyedsingleton.Keys(ks), dataflow.Map(keyedsingleton.Keys(late), func(k string) string { return k + "!" }))
		out := dataflow.Output(dataflow.AssumeOrder(both, tried), "out")
		b.Start()
		s.Check(in.Put(s.Context(), "slow", 2*time.Second))
		s.Check(in.Put(s.Context(), "fast", time.Second))
		in.Close()
		got[strings.Join(sim.Collect(s, out), " ")] = true
	})
	want := []string{
		"fast fast! slow slow!", "fast slow fast! slow!", "slow fast fast! slow!", "slow slow! fast fast!",
	}
	for _, w := range want {
		if !got[w] {
			t.Errorf("no schedule gives %q; there are %d: %v", w, n, got)
		}
	}
	for g := range got {
		if strings.Index(g, "fast!") < strings.Index(g, "fast ") || strings.Index(g, "slow!") < strings.Index(g, "slow ") {
			t.Errorf("a timer fires before it is set: %q", g)
		}
	}
}

// TestTimePasses checks that time may or may not pass between two records. Equal timers fire in the order in which they were
// set, each at any later moment: a Dyck word for each order of the keys.
func TestTimePasses(t *testing.T) {
	got := make(map[string]bool)
	sim.Exhaustive(t, func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		ks := keyedsingleton.Map(b.entries("xs", 1, 2, 3), func(x int) string { return fmt.Sprint(x) })
		late := keyedsingleton.Map(keyedsingleton.After(ks, time.Second, tried), func(x string) string { return x + "!" })
		out := dataflow.Output(dataflow.AssumeOrder(dataflow.Merge(keyedsingleton.Values(ks), keyedsingleton.Values(late)), tried), "out")
		b.Start()
		got[strings.Join(sim.Collect(s, out), " ")] = true
	})
	if len(got) != 6*5 || !got["1 2 1! 3 2! 3!"] {
		t.Errorf("%d orders, want 30: %v", len(got), slices.Sorted(maps.Keys(got)))
	}
}

// TestTimeMakesADifference checks that either of a long and a short timer may fire first if the long one was set first.
func TestTimeMakesADifference(t *testing.T) {
	got := make(map[string]bool)
	sim.Exhaustive(t, func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		in, ks := keyedsingleton.Input[string, time.Duration](b.at, "xs")
		late := keyedsingleton.AfterEach(ks, func(d time.Duration) time.Duration { return d }, tried)
		out := dataflow.Output(dataflow.AssumeOrder(keyedsingleton.Keys(late), tried), "out")
		b.Start()
		s.Check(in.Put(s.Context(), "first", time.Second)) // so that its duration is known
		sim.Collect(s, out)
		s.Check(in.Put(s.Context(), "long", 2*time.Second))
		s.Check(in.Put(s.Context(), "short", time.Second))
		got[strings.Join(sim.Collect(s, out), " ")] = true
	})
	if !got["long short"] || !got["short long"] {
		t.Errorf("got %v, want both orders", got)
	}
}

// TestAsync checks that answers come in any order.
func TestAsync(t *testing.T) {
	got := make(map[string]bool)
	sim.Exhaustive(t, func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		answers := keyedsingleton.MapAsync(b.entries("xs", 10, 20, 30), func(_ context.Context, x int) int { return x }, keyedsingleton.AsyncOptions{})
		out := dataflow.Output(dataflow.AssumeOrder(keyedsingleton.Values(answers), tried), "out")
		b.Start()
		got[fmt.Sprint(sim.Collect(s, out))] = true
	})
	if len(got) != 6 {
		t.Errorf("answers came in %d orders, want 6: %v", len(got), got)
	}
}

// TestEndless is case G2: a flow that feeds itself for ever ends with an error that names its cycle.
func TestEndless(t *testing.T) {
	story, _ := sim.Fails(t, func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		loop, fed := dataflow.Cycle[int, ordered](b.at, "again")
		all := dataflow.MergeOrdered(b.stream("xs", 1), fed, tried)
		loop.Complete(dataflow.Map(slice.Emit(slice.Batch(slice.At(b.at), all, tried)), func(x int) int { return x + 1 }))
		b.Start()
	})
	if !strings.Contains(story, "is not quiet after 100000 steps: it goes round in dataflow.Map (sim_test.go:") {
		t.Errorf("the story is %q", story)
	}
}

// TestCycle is case F7: a record that is fed back comes after the record that caused it, and before or after waiting records.
func TestCycle(t *testing.T) {
	n, got := outcomes(t, func(b bench) string {
		loop, fed := dataflow.Cycle[int, ordered](b.at, "again")
		all := dataflow.MergeOrdered(b.stream("xs", 1, 2), fed, tried)
		seen := slice.Emit(slice.Batch(slice.At(b.at), all, tried))
		loop.Complete(dataflow.FilterMap(seen, func(x int) (int, bool) { return x + 9, x == 1 }))
		return run(b, dataflow.Output(seen, "out"))
	})
	if want := []string{"[1 10 2]", "[1 2 10]"}; !slices.Equal(got, want) {
		t.Errorf("got %v in %d schedules, want %v", got, n, want)
	}
}

// TestInterval checks that an interval fires before, between and after waiting records, at most three times after its location
// last took a record, and then stops.
func TestInterval(t *testing.T) {
	_, got := outcomes(t, func(b bench) string {
		beats := dataflow.Map(dataflow.Interval(b.at, time.Second, tried), func(d time.Duration) int { return int(d / time.Second) })
		all := dataflow.MergeOrdered(dataflow.Map(b.stream("xs", 10), func(x int) int { return x }), beats, tried)
		return run(b, dataflow.Output(all, "out"))
	})
	if want := []string{"[1 10 2 3 4]", "[1 2 10 3 4 5]", "[1 2 3 10 4 5 6]", "[10 1 2 3]"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestTicks checks that an interval fires before, between and after two unrelated records, three times since each, whether they
// were sent to its location or come from another one. It catches a search that treats the interval as independent of sends.
func TestTicks(t *testing.T) {
	for _, away := range []bool{false, true} {
		ticks := func(s *sim.Sim) {
			at := dataflow.At[Server](s.Flow())
			in, xs := dataflow.Input[int](at, "xs")
			var n *dataflow.SingletonOutputPort[int]
			if away {
				there := dataflow.At[Away](s.Flow())
				dataflow.Output(dataflow.Send(xs, there), "xs")
				n = singleton.Output(dataflow.Count(dataflow.Interval(there, time.Second, tried)), "ticks")
			} else {
				dataflow.Output(xs, "xs")
				n = singleton.Output(dataflow.Count(dataflow.Interval(at, time.Second, tried)), "ticks")
			}
			s.Start()
			s.Check(in.Send(s.Context(), 1))
			s.Check(in.Send(s.Context(), 2))
			s.Quiesce()
			ticked, _ := n.Latest()
			s.Observe(ticked)
		}
		reduced, whole := sim.ExploreAs(t, sim.Exploring{}, ticks), sim.ExploreAs(t, sim.Exploring{Whole: true}, ticks)
		if reduced.Schedules != 7 || whole.Schedules != 7 || !reduced.Complete || !whole.Complete { // 3 to 9 ticks
			t.Errorf("away %v: %+v, want 7 schedules; %+v without the reduction", away, reduced, whole)
		}
	}
}

// TestChanges checks that two changes of a key are seen one by one or as one. It catches a search that treats a look at changes
// as independent of everything, and one that counts which looks see the changes of two keys.
func TestChanges(t *testing.T) {
	for _, test := range []struct {
		keys      []int
		schedules int
	}{{[]int{1, 1}, 2}, {[]int{1, 2}, 1}} {
		changes := func(s *sim.Sim) {
			in, xs := keyedstream.Input[int, int](dataflow.At[Server](s.Flow()), "xs")
			keyedstream.Output(keyedsingleton.Changes(keyedstream.Sum(xs), tried), "changes")
			s.Start()
			for i, k := range test.keys {
				s.Check(in.Send(s.Context(), k, i+1))
			}
		}
		for _, whole := range []bool{false, true} {
			if n := sim.ExploreAs(t, sim.Exploring{Whole: whole}, changes); n.Schedules != test.schedules || !n.Complete || n.Failed != "" {
				t.Errorf("keys %v, whole %v: %+v, want %d schedules", test.keys, whole, n, test.schedules)
			}
		}
	}
}

// TestQuiet checks that waiting for something that never comes ends with an error that says so, and with io.EOF if the flow has
// ended.
func TestQuiet(t *testing.T) {
	sim.Exhaustive(t, func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		in, ks := keyedsingleton.Input[string, int](b.at, "xs")
		out := keyedsingleton.Output(ks, "out")
		app := b.Start()
		if _, err := out.Await(s.Context(), "never"); err == nil || !strings.Contains(err.Error(), "will never come") {
			s.Errorf("awaiting at a flow whose input is open gives %v", err)
		}
		in.Close()
		if _, err := out.Await(s.Context(), "never"); err != io.EOF {
			s.Errorf("awaiting at a flow that has ended gives %v", err)
		}
		s.Check(app.Wait())
		if err := in.Put(s.Context(), "late", 1); !errors.Is(err, dataflow.ErrClosed) {
			s.Errorf("putting at a flow that has ended gives %v", err)
		}
	})
}

func TestRandom(t *testing.T) {
	n := sim.Random(t, 500, func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		emit(list(slice.Batch(slice.At(b.at), b.stream("xs", 1, 2, 3, 4), tried)))
		b.Start()
	})
	if n != 8 {
		t.Errorf("500 random schedules were %d different ones, want all 8", n)
	}
}

// FuzzQuorum lets the fuzzer look for a schedule in which a quorum is wrong.
func FuzzQuorum(f *testing.F) {
	sim.Fuzz(f, func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		votes := b.keyed("votes", e(1, "a"), e(1, "b"), e(2, "a"), e(1, "c"), e(2, "b"))
		passed := keyedstream.FoldEarlyStop(votes, func() int { return 0 }, func(n *int, _ string) bool { *n++; return *n == 2 })
		out := emit(set(slice.BatchEntries(slice.At(b.at), passed, tried)))
		b.Start()
		got := strings.Join(sim.Collect(s, out), " ")
		if got != "{1:2 2:2}" && got != "{1:2} {2:2}" && got != "{2:2} {1:2}" {
			s.Errorf("got %s", got)
		}
	})
}
