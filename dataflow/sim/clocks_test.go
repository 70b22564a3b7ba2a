package sim_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/internal/long"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

var clockPrograms = flag.Int("clock.programs", long.Of(10, 60), "how many random programs TestClocksAtRandom compares")

// TestTimersOfKeys checks that timers of keys that nothing compares need one schedule, whatever their
// number and durations. The first execution discovers that the keys have separate clocks.
func TestTimersOfKeys(t *testing.T) {
	for n := 1; n <= 5; n++ {
		schedules, executions := sim.Explore(t, func(s *sim.Sim) {
			in, waits := keyedsingleton.Input[int, time.Duration](dataflow.At[Server](s.Flow()), "waits")
			late := keyedsingleton.Output(keyedsingleton.AfterEach(waits, func(d time.Duration) time.Duration { return d }, tried), "late")
			s.Start()
			for i := range n {
				s.Check(in.Put(s.Context(), i, time.Duration(1+i%3)*time.Second))
			}
			for i := range n {
				_, err := late.Await(s.Context(), i)
				s.Check(err)
			}
		}, false)
		if most := max(n-1, min(n, 2)); schedules != 1 || executions > most {
			t.Errorf("%d keys: %d schedules in %d executions, want 1 in %d at most", n, schedules, executions, most)
		}
	}
}

// fates reports for each key whether its timer fired before the key was cancelled.
func fates(s *sim.Sim, waits ...int) (all []string) {
	b := bench{s, dataflow.At[Server](s.Flow())}
	in, entries := keyedsingleton.Input[int, int](b.at, "waits")
	cancel, cancelled := keyedstream.Input[int, string](b.at, "cancel")
	late := keyedsingleton.AfterEach(entries, func(d int) time.Duration { return time.Duration(d) * time.Second }, tried)
	over := keyedsingleton.IntoKeyedStream(keyedsingleton.Map(late, func(int) string { return "over" }))
	fate := keyedsingleton.Output(keyedstream.First(keyedstream.AssumeOrder(keyedstream.Merge(over, cancelled), tried)), "fate")
	b.Start()
	for i, d := range waits {
		s.Check(in.Put(s.Context(), i, d))
		s.Check(cancel.Send(s.Context(), i, "cancelled"))
	}
	s.Quiesce()
	for i := range waits {
		is, _ := fate.Get(i)
		all = append(all, is)
	}
	s.Observe(all)
	return all
}

// TestFates checks that the keys have independent fates. A failure that needs one fate of each key is
// shortened and can be rerun from its choices, which include that the keys have separate clocks.
func TestFates(t *testing.T) {
	ways := 1 // a cancellation comes before the entry, or before its timer, or after that
	for n := 1; n <= 4; n++ {
		ways *= 3
		schedules, executions := sim.Explore(t, func(s *sim.Sim) { fates(s, []int{3, 1, 2, 1}[:n]...) }, false)
		if schedules != 1<<n || executions > ways+1 {
			t.Errorf("%d keys: %d schedules in %d executions, want %d in %d at most", n, schedules, executions, 1<<n, ways+1)
		}
	}
	f := func(s *sim.Sim) {
		if got := fates(s, 1, 5, 3); slices.Equal(got, []string{"cancelled", "over", "cancelled"}) {
			s.Errorf("found")
		}
	}
	story, trace := sim.Fails(t, f)
	if !strings.Contains(story, "found") {
		t.Errorf("the choices %s do not fail when they are made again:\n%s", trace, story)
	}
	for n := range 3 { // in a search, which knows the clocks
		if got := sim.ExploreAs(t, sim.Exploring{Workers: n}, f).Failed; !strings.Contains(got, "found") {
			t.Errorf("%d workers: %q", n, got)
		}
	}
}

// TestCancelledLate checks that a client is too late to cancel a key after it has seen a longer timer
// fire that was set later. It catches a cancellation that comes before a timer that was due.
func TestCancelledLate(t *testing.T) {
	cancelled := 0
	sim.Exhaustive(t, func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		in, entries := keyedsingleton.Input[int, int](b.at, "waits")
		cancel, cancels := keyedstream.Input[int, string](b.at, "cancel")
		taken := keyedsingleton.Output(entries, "taken")
		late := keyedsingleton.AfterEach(entries, func(d int) time.Duration { return time.Duration(d) * time.Second }, tried)
		overs := keyedsingleton.Output(late, "over")
		over := keyedsingleton.IntoKeyedStream(keyedsingleton.Map(late, func(int) string { return "over" }))
		fate := keyedsingleton.Output(keyedstream.First(keyedstream.AssumeOrder(keyedstream.Merge(over, cancels), tried)), "fate")
		b.Start()
		s.Check(in.Put(s.Context(), 0, 1))
		_, err := taken.Await(s.Context(), 0)
		s.Check(err)
		s.Check(in.Put(s.Context(), 1, 2))
		s.Check(in.Put(s.Context(), 2, 5))
		_, err = overs.Await(s.Context(), 1)
		s.Check(err)
		for i := range 3 {
			s.Check(cancel.Send(s.Context(), i, "cancelled"))
		}
		s.Quiesce()
		for i := range 3 {
			is, _ := fate.Get(i)
			if is == "cancelled" {
				cancelled++
			}
			if is == "cancelled" && i < 2 {
				s.Errorf("%d is cancelled after its timer was due", i)
			}
		}
	})
	if cancelled == 0 {
		t.Error("nothing was cancelled")
	}
}

// TestTimeTold checks that a function that asks for the time sees that a timer of another key fired
// before. It catches a search in which time passes for that timer only.
func TestTimeTold(t *testing.T) {
	seen := make(map[bool]bool)
	sim.Exhaustive(t, func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		in, entries := keyedsingleton.Input[string, bool](b.at, "pause")
		asked, asks := keyedstream.Input[string, bool](b.at, "asked")
		keyedsingleton.Output(keyedsingleton.After(entries, time.Second, tried), "over")
		late, _ := keyedstream.TimedMachine(asks, func() int { return 0 },
			func(_ *int, _ bool, do *keyedstream.TimedTurn[string, bool, struct{}]) {
				do.After(0, time.Minute)
				do.Emit(do.Now() >= time.Second)
			},
			func(*int, keyedstream.Timer, *keyedstream.TimedTurn[string, bool, struct{}]) {}, tried)
		out := keyedstream.Output(late, "late")
		b.Start()
		s.Check(in.Put(s.Context(), "pause", true))
		s.Check(asked.Send(s.Context(), "ann", true))
		for _, e := range sim.Collect(s, out) {
			seen[e.Value] = true
		}
	})
	if len(seen) != 2 {
		t.Errorf("that it is late is told as %v", seen)
	}
}

// A query is what the client of a program does next.
type query struct {
	what byte // 'p' puts a key, 't' and 'o' wait until it is taken or over, 'g' looks whether it is over, 'c' counts
	key  int
}

func (q query) String() string { return fmt.Sprintf("%c%d", q.what, q.key) }

// A timedProgram has timers of several keys, and asks about them.
type timedProgram struct {
	waits   []int // seconds of each key
	twice   bool  // an expired key waits once more, for a second
	ordered bool  // a reader sees the order in which keys expire
	queries []query
}

func drawTimed(rng *rand.Rand) (p timedProgram) {
	p.twice, p.ordered = rng.IntN(4) == 0, rng.IntN(4) == 0
	for range 2 + rng.IntN(2) {
		p.waits = append(p.waits, 1+rng.IntN(3))
	}
	for i := range p.waits {
		p.queries = append(p.queries, query{'p', i})
	}
	for range 1 + rng.IntN(3) {
		p.queries = append(p.queries, query{"toggc"[rng.IntN(5)], rng.IntN(len(p.waits))})
	}
	rng.Shuffle(len(p.queries), func(i, j int) { p.queries[i], p.queries[j] = p.queries[j], p.queries[i] })
	put := make(map[int]bool)
	p.queries = slices.DeleteFunc(p.queries, func(q query) bool { // waiting for a key that was not put never ends
		put[q.key] = put[q.key] || q.what == 'p'
		return !put[q.key]
	})
	return p
}

// run makes the queries, and returns the answers.
func (p timedProgram) run(s *sim.Sim) (shown string) {
	in, waits := keyedsingleton.Input[int, int](dataflow.At[Server](s.Flow()), "waits")
	taken := keyedsingleton.Output(waits, "taken")
	late := keyedsingleton.AfterEach(waits, func(d int) time.Duration { return time.Duration(d) * time.Second }, tried)
	if p.twice {
		late = keyedsingleton.After(late, time.Second, tried)
	}
	over := keyedsingleton.Output(late, "over")
	count := singleton.Output(keyedsingleton.KeyCount(late), "count")
	var order *dataflow.OutputPort[int]
	if p.ordered {
		order = dataflow.Output(dataflow.AssumeOrder(keyedsingleton.Keys(late), tried), "order")
	}
	s.Start()
	for _, q := range p.queries {
		var err error
		switch q.what {
		case 'p':
			err = in.Put(s.Context(), q.key, p.waits[q.key])
		case 't':
			_, err = taken.Await(s.Context(), q.key)
		case 'o':
			_, err = over.Await(s.Context(), q.key)
		case 'g':
			_, is := over.Get(q.key)
			shown += fmt.Sprint(q, "=", is, " ")
		case 'c':
			n, _ := count.Latest()
			shown += fmt.Sprint("n=", n, " ")
		}
		s.Check(err)
	}
	if p.ordered {
		shown += fmt.Sprint(sim.Collect(s, order))
	}
	s.Observe(shown)
	return shown
}

// TestClocksSeen checks that a client that has seen a timer fire also sees every shorter timer that was
// set earlier fired. No schedule shows anything else, and no impossible schedule is reported as a failure.
// A search that finds out too late that both timers share a clock would have run such a schedule.
func TestClocksSeen(t *testing.T) {
	steps := func(words ...string) (all []query) {
		for _, w := range words {
			all = append(all, query{w[0], int(w[1] - '0')})
		}
		return all
	}
	for _, test := range []struct {
		p    timedProgram
		want []string
	}{
		{timedProgram{waits: []int{1, 2}, queries: steps("p0", "t0", "p1", "o1", "g0")}, []string{"g0=true "}},
		{timedProgram{waits: []int{2, 1}, queries: steps("p0", "t0", "p1", "o1", "g0")}, []string{"g0=false ", "g0=true "}},
		{timedProgram{waits: []int{1, 2}, queries: steps("p0", "t0", "p1", "o1", "c0")}, []string{"n=2 "}},
		{timedProgram{waits: []int{1, 2, 3}, queries: steps("p0", "t0", "p1", "p2", "o2", "g0", "g1")}, []string{"g0=true g1=false ", "g0=true g1=true "}},
	} {
		seen := make(map[string]bool)
		sim.Explore(t, func(s *sim.Sim) {
			shown := test.p.run(s)
			if seen[shown] = true; !slices.Contains(test.want, shown) {
				s.Fatalf("no clock allows %q", shown)
			}
		}, false)
		if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, test.want) {
			t.Errorf("%+v shows %q, want %q", test.p, got, test.want)
		}
	}
}

// TestClocksSeenLate is TestClocksSeen for a client that looks at the shorter timer only if the record
// of another input was not taken. No execution shows this before there are several clocks. It catches a
// reported failure whose timers fire in an impossible order.
func TestClocksSeenLate(t *testing.T) {
	looked := 0
	sim.Explore(t, func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		in, waits := keyedsingleton.Input[int, int](b.at, "waits")
		other, others := dataflow.Input[int](b.at, "other")
		taken := keyedsingleton.Output(waits, "taken")
		late := keyedsingleton.AfterEach(waits, func(d int) time.Duration { return time.Duration(d) * time.Second }, tried)
		over := keyedsingleton.Output(late, "over")
		count := singleton.Output(dataflow.Count(others), "count")
		short := keyedsingleton.Keys(keyedsingleton.Filter(late, func(d int) bool { return d == 1 }))
		both := dataflow.AssumeOrder(dataflow.Merge(dataflow.WeakenOrder(others), short), tried)
		singleton.Output(dataflow.Fold(both, func() []int { return nil }, func(acc *[]int, x int) { *acc = append(*acc, x) }), "both")
		b.Start()
		s.Check(in.Put(s.Context(), 0, 1))
		_, err := taken.Await(s.Context(), 0)
		s.Check(err)
		s.Check(in.Put(s.Context(), 1, 2))
		s.Check(other.Send(s.Context(), 7))
		_, err = over.Await(s.Context(), 1)
		s.Check(err)
		if n, _ := count.Latest(); n > 0 {
			return
		}
		looked++
		if _, is := over.Get(0); !is {
			s.Fatalf("the longer timer has fired, and not the shorter one")
		}
	}, false)
	if looked == 0 {
		t.Error("nobody has looked at the shorter timer")
	}
}

// TestClocksAtRandom checks that separate clocks change nothing that a client sees. It draws programs
// of keys, timers and queries at random, and compares their outcomes with those without the reduction,
// where each location has one clock. It catches an outcome with a late timer that no single clock
// allows, and a missing outcome that needs the order of two timers.
func TestClocksAtRandom(t *testing.T) {
	apart := 0
	for n := range *clockPrograms {
		p := drawTimed(rand.New(rand.NewPCG(1, uint64(n))))
		outcomes := func(whole bool) (all []string, found sim.Explored) {
			seen := make(map[string]bool)
			found = sim.ExploreAs(t, sim.Exploring{Whole: whole, Limit: 20_000}, func(s *sim.Sim) { seen[p.run(s)] = true })
			return slices.Sorted(maps.Keys(seen)), found
		}
		want, whole := outcomes(true)
		if !whole.Complete {
			continue
		}
		got, reduced := outcomes(false)
		if !reduced.Complete || !slices.Equal(got, want) || reduced.Schedules != whole.Schedules {
			t.Errorf("program %d, %+v: %q, want %q; %+v without the reduction, %+v with it", n, p, got, want, whole, reduced)
		}
		if reduced.Executions < whole.Executions {
			apart++
		}
	}
	t.Logf("%d programs, %d of them with fewer executions than without the reduction", *clockPrograms, apart)
	if *clockPrograms >= 60 && apart < *clockPrograms/2 {
		t.Errorf("only %d of %d programs were reduced", apart, *clockPrograms)
	}
}
