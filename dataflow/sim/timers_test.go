package sim_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/internal/long"
	"github.com/millrace/millrace/keyedsingleton"
)

// A wait is an entry that may arrive at any time. It is due after the first number of seconds, again
// after the second number of seconds behind that, and so on.
type wait []int

// waits builds a flow that shows the order in which entries arrive and are due. One timer operator
// handles the first time that an entry is due, another one the second time, and so on.
func waits(s *sim.Sim, all []wait) *dataflow.OutputPort[string] {
	b := bench{s, dataflow.At[Server](s.Flow())}
	in, es := keyedsingleton.Input[int, wait](b.at, "waits")
	names := func(es entries[int, wait], mark string) dataflow.Stream[string, Server, unbounded, dataflow.NoOrder, once] {
		return dataflow.Map(keyedsingleton.Keys(es), func(i int) string { return fmt.Sprint(i) + mark })
	}
	seen := names(es, "")
	for i := range longest(all) {
		es = keyedsingleton.Filter(es, func(w wait) bool { return len(w) > i })
		es = keyedsingleton.AfterEach(es, func(w wait) time.Duration { return time.Duration(w[i]) * time.Second }, tried)
		seen = dataflow.Merge(seen, names(es, strings.Repeat("!", i+1)))
	}
	out := dataflow.Output(dataflow.AssumeOrder(seen, tried), "out")
	b.Start()
	for i, w := range all {
		s.Check(in.Put(s.Context(), i, w))
	}
	in.Close()
	return out
}

func longest(all []wait) int {
	return len(slices.MaxFunc(all, func(a, b wait) int { return cmp.Compare(len(a), len(b)) }))
}

// A grid models production on a grid of times, without the engine. Entries arrive at multiples of a fraction
// of a second, in every possible way. Durations are whole seconds, so within a second only the order of two
// times matters, not their distance. A second therefore has as many parts as there are entries.
//
// A step that fires timers fires all that are due at its time, ordered by deadline, operator and the
// order in which they were set. It may be made any time after that, even after further entries have
// arrived: an entry does not wait for a late timer. No step has a time before that of the last step.
type grid struct {
	all   []wait
	parts int
	found map[string]bool
}

// A due is a pending timer.
type due struct{ at, op, set, entry int }

// orders returns all possible results.
func orders(all []wait) []string {
	g := grid{all, len(all), make(map[string]bool)}
	g.come(nil, nil, 0, 0)
	return slices.Sorted(maps.Keys(g.found))
}

// come adds one of the remaining entries, at any time from now on.
func (g grid) come(seen []string, pending []due, came uint, now int) {
	if came == 1<<len(g.all)-1 {
		seen, _ = g.fire(seen, pending, 1<<30)
		g.found[strings.Join(seen, " ")] = true
		return
	}
	last := now // after all pending timers have fired, more time changes nothing
	for _, x := range pending {
		at := x.at + 1
		for _, d := range g.all[x.entry][x.op+1:] {
			at += d * g.parts
		}
		last = max(last, at)
	}
	for i, w := range g.all {
		if came&(1<<i) != 0 {
			continue
		}
		for at := now; at <= last; at++ {
			next := func(seen []string, pending []due) {
				x := due{at + w[0]*g.parts, 0, len(seen), i}
				g.come(append(slices.Clip(seen), fmt.Sprint(i)), append(slices.Clip(pending), x), came|1<<i, at)
			}
			next(seen, pending)
			for fires := now; fires <= at && len(pending) > 0; fires++ {
				next(g.fire(seen, pending, fires))
			}
		}
	}
}

// fire fires the timers that are due until now.
func (g grid) fire(seen []string, pending []due, now int) ([]string, []due) {
	seen, pending = slices.Clone(seen), slices.Clone(pending)
	for {
		slices.SortFunc(pending, func(x, y due) int {
			return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.op, y.op), cmp.Compare(x.set, y.set))
		})
		if len(pending) == 0 || pending[0].at > now {
			return seen, pending
		}
		x := pending[0]
		pending = pending[1:]
		x.op++
		if w := g.all[x.entry]; x.op < len(w) {
			pending = append(pending, due{x.at + w[x.op]*g.parts, x.op, len(seen), x.entry})
		}
		seen = append(seen, fmt.Sprint(x.entry)+strings.Repeat("!", x.op))
	}
}

// ordersShown returns the results of all schedules of a flow of waits, and the number of executions.
func ordersShown(t *testing.T, all []wait) (found []string, executions int) {
	got := make(map[string]bool)
	n, executions := sim.Explore(t, func(s *sim.Sim) { got[strings.Join(sim.Collect(s, waits(s, all)), " ")] = true }, false)
	if n != len(got) {
		t.Errorf("%v: %d schedules show %d different orders", all, n, len(got))
	}
	return slices.Sorted(maps.Keys(got)), executions
}

// TestEveryTime checks that time may pass between any two entries. It catches an order of entries and
// timers that is possible in production but in no schedule, and an order that is impossible because it
// needs a negative time. For [3 2 1], two orders need a late timer, which fires after an entry that
// arrived after its deadline. There may be more executions than orders, because a time that lets one
// timer fire first may change nothing else.
func TestEveryTime(t *testing.T) {
	for _, x := range []struct {
		all                   []wait
		schedules, executions int
	}{
		{[]wait{{2}, {1}}, 5, 5},
		{[]wait{{1}, {1}}, 4, 4},
		{[]wait{{3}, {2}, {1}}, 53, 60},
		{[]wait{{1}, {1}, {1}}, 30, 30},
		{[]wait{{5}, {2}, {1}}, 55, 60},
		{[]wait{{2}, {2}, {1}}, 44, 54},
		{[]wait{{2}, {1, 1}}, 7, 7},
		{[]wait{{1, 2}, {2, 1}}, 12, 12},
		{[]wait{{1, 1}, {1}, {2}}, 86, 123},
	} {
		want := orders(x.all)
		got, executions := ordersShown(t, x.all)
		if !slices.Equal(got, want) {
			t.Errorf("%v: %s", x.all, differ(got, want))
		}
		if len(got) != x.schedules || executions != x.executions {
			t.Errorf("%v: %d schedules in %d executions, want %d in %d", x.all, len(got), executions, x.schedules, x.executions)
		}
	}
}

// differ describes the impossible orders that the simulator has and the orders that it lacks.
func differ(got, want []string) string {
	without := func(a, b []string) []string {
		return slices.DeleteFunc(slices.Clone(a), func(x string) bool { return slices.Contains(b, x) })
	}
	return fmt.Sprintf("%d orders, want %d; schedules lack %q and have %q", len(got), len(want), without(want, got), without(got, want))
}

// TestEveryTimeAtRandom is TestEveryTime for random durations.
func TestEveryTimeAtRandom(t *testing.T) {
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	for range long.Of(10, 30) {
		all := make([]wait, 2+rng.IntN(2))
		for i := range all {
			for range 1 + rng.IntN(6)/5 {
				all[i] = append(all[i], 1+rng.IntN(5))
			}
		}
		want := orders(all)
		if got, _ := ordersShown(t, all); !slices.Equal(got, want) {
			t.Errorf("seed %d: %v: %s", seed, all, differ(got, want))
		}
	}
}

// TestTimesSeen sets two timers. A caller waits for the longer one and looks at the shorter one. The
// timers share only the clock, but it still matters which fires first. The test catches a search that
// compares two firings without the moves that they cause.
func TestTimesSeen(t *testing.T) {
	seen := make(map[bool]int)
	sim.Explore(t, func(s *sim.Sim) {
		here := dataflow.At[Server](s.Flow())
		var inputs []*dataflow.EntryInputPort[int, int]
		var outputs []*dataflow.EntryOutputPort[int, int]
		wait := func(name string, after time.Duration) *dataflow.EntryOutputPort[int, int] {
			port, entries := keyedsingleton.Input[int, int](here, name)
			taken := keyedsingleton.Output(entries, name+" taken")
			over := keyedsingleton.Output(keyedsingleton.After(entries, after, "tested"), name+" over")
			inputs = append(inputs, port)
			outputs = append(outputs, taken)
			return over
		}
		short, long := wait("short", time.Second), wait("long", 2*time.Second)
		s.Start()
		for _, port := range inputs {
			s.Check(port.Put(s.Context(), 1, 1))
		}
		for _, taken := range outputs {
			_, err := taken.Await(s.Context(), 1)
			s.Check(err)
		}
		if _, early := long.Get(1); early {
			return
		}
		_, err := long.Await(s.Context(), 1)
		s.Check(err)
		_, over := short.Get(1)
		seen[over]++
	}, false)
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("when the longer timer was over, the shorter one was so often: %v", seen)
	}
}

// TestTimesReduced checks that a search finds the same orders of entries and timers with and without the
// reduction, and makes the same executions with any number of workers and after it was stopped and
// resumed. It catches a time that a worker finds for a place that another worker has left, a time that
// is missing from a checkpoint, and a move that is treated as independent of a time on which it depends.
func TestTimesReduced(t *testing.T) {
	for _, all := range [][]wait{{{2}, {1}}, {{2}, {1, 1}}, {{1, 2}, {2, 1}}, {{3}, {2}, {1}}} {
		see := func(s *sim.Sim) { sim.Collect(s, waits(s, all)) }
		want := sim.ExploreAs(t, sim.Exploring{Workers: 1}, see)
		for _, n := range []int{2, 8} {
			if got := sim.ExploreAs(t, sim.Exploring{Workers: n}, see); got != want {
				t.Errorf("%v: %+v with %d workers, want %+v", all, got, n, want)
			}
		}
		how := sim.Exploring{Limit: 2, Checkpoint: filepath.Join(t.TempDir(), "search")}
		got := sim.ExploreAs(t, how, see)
		for times := 1; !got.Complete && got.Failed == "" && times < want.Executions; times++ {
			got = sim.ExploreAs(t, how, see)
		}
		if got != want {
			t.Errorf("%v: %+v if it is stopped after two executions each time, want %+v", all, got, want)
		}
		whole := sim.ExploreAs(t, sim.Exploring{Whole: true}, see)
		if !whole.Complete || whole.Schedules != want.Schedules || whole.Executions <= want.Executions {
			t.Errorf("%v: %+v without the reduction, %+v with it", all, whole, want)
		}
	}
}

// TestFailsAtATime checks that a failure that needs a certain time keeps that time when it is
// shortened, and can be repeated from its choices. It catches a time that is lost from a trace.
func TestFailsAtATime(t *testing.T) {
	for _, find := range []func(f func(*sim.Sim)) (story, trace string){
		func(f func(*sim.Sim)) (story, trace string) { return sim.Fails(t, f) },
		func(f func(*sim.Sim)) (story, trace string) { return sim.FailsAtRandom(t, 1000, f) },
	} {
		seen := ""
		f := func(s *sim.Sim) {
			if seen = strings.Join(sim.Collect(s, waits(s, []wait{{5}, {2}})), " "); seen == "0 1 0! 1!" {
				s.Errorf("the longer one is due first")
			}
		}
		_, trace := find(f)
		if trace == "" {
			t.Fatal("nothing fails")
		}
		short, ok := sim.Shorten(t, trace, f)
		if !ok || seen != "0 1 0! 1!" {
			t.Errorf("%s was made %q, which shows %q when it is run again", trace, short, seen)
		}
		if n := strings.Count(short, "."); n > strings.Count(trace, ".") {
			t.Errorf("%s is shortened to %s", trace, short)
		}
	}
}
