package sim_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/internal/long"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/slice"
)

var fullPrograms = flag.Int("full.programs", long.Of(3, 60), "how many random programs with full outputs are explored, and run in production")

// A logged is a flow that answers its input, and writes a log that somebody has to read.
type logged struct {
	xs, ys       *dataflow.InputPort[int]
	log, answers *dataflow.OutputPort[int]
}

// loggedFlows are flows in which an unread output blocks answers.
var loggedFlows = map[string]func(*dataflow.Flow) logged{
	"one input": func(flow *dataflow.Flow) (p logged) {
		in, xs := dataflow.Input[int](dataflow.At[Server](flow), "xs")
		return logged{in, in, dataflow.Output(xs, "log"), dataflow.Output(dataflow.Map(xs, func(x int) int { return 10 * x }), "answers")}
	},
	"two inputs": func(flow *dataflow.Flow) (p logged) {
		at := dataflow.At[Server](flow)
		p.xs, p.ys = nil, nil
		in, xs := dataflow.Input[int](at, "xs")
		second, ys := dataflow.Input[int](at, "ys")
		return logged{in, second, dataflow.Output(xs, "log"), dataflow.Output(ys, "answers")}
	},
	"a slice": func(flow *dataflow.Flow) (p logged) {
		at := dataflow.At[Server](flow)
		in, xs := dataflow.Input[int](at, "xs")
		count := dataflow.Fold(slice.Batch(slice.At(at), xs, tried), func() int { return 0 }, func(n *int, x int) { *n = 10**n + x })
		return logged{in, in, dataflow.Output(xs, "log"), emit(count)}
	},
	"a constant": func(flow *dataflow.Flow) (p logged) {
		at := dataflow.At[Server](flow)
		in, xs := dataflow.Input[int](at, "xs")
		return logged{in, in, dataflow.Output(dataflow.Of(at, 1, 2, 3), "log"), dataflow.Output(xs, "answers")}
	},
	"two locations": func(flow *dataflow.Flow) (p logged) {
		in, xs := dataflow.Input[int](dataflow.At[Server](flow), "xs")
		there := dataflow.Send(xs, dataflow.At[Away](flow))
		return logged{in, in, dataflow.Output(there, "log"), dataflow.Output(dataflow.Map(xs, func(x int) int { return 10 * x }), "answers")}
	},
}

// A loggedProgram is a flow and the operations of its clients, one letter each: x and y send, l and a read the log and an
// answer.
type loggedProgram struct {
	flow          string
	clients       []string
	buffer, queue int
}

func drawLogged(rng *rand.Rand) loggedProgram {
	names := slices.Sorted(maps.Keys(loggedFlows))
	p := loggedProgram{flow: names[rng.IntN(len(names))], buffer: 1 + rng.IntN(2), queue: 1 + rng.IntN(2)}
	for left := 5; left > 0 && len(p.clients) < 3; {
		n := min(left, 1+rng.IntN(4))
		left -= n
		var ops []byte
		for range n {
			ops = append(ops, "xxyla"[rng.IntN(5)])
		}
		p.clients = append(p.clients, string(ops))
	}
	return p
}

// client returns a function that performs the operations of client i and returns their results. It ends when it would wait for
// ever.
func (p loggedProgram) client(i int, ports logged) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var b strings.Builder
		for n, op := range []byte(p.clients[i]) {
			var err error
			x := 10*i + n
			switch op {
			case 'x':
				err = ports.xs.Send(ctx, x)
			case 'y':
				err = ports.ys.Send(ctx, x)
			case 'l':
				x, err = ports.log.Next(ctx)
			case 'a':
				x, err = ports.answers.Next(ctx)
			}
			switch {
			case errors.Is(err, sim.ErrQuiet) || errors.Is(err, context.DeadlineExceeded):
				var blocked *dataflow.BlockedError
				fmt.Fprintf(&b, " %c waits for ever, told of a full output: %v", op, errors.As(err, &blocked))
				return b.String(), nil
			case err != nil:
				return "", err
			}
			fmt.Fprintf(&b, " %c%d", op, x)
		}
		return b.String(), nil
	}
}

// explore returns what clients see in all schedules. It reports false if there are too many schedules.
func (p loggedProgram) explore(t *testing.T, level sim.Level, opts ...sim.Option) (seen map[string]bool, report *sim.Report, ok bool) {
	seen = make(map[string]bool)
	var all []string
	spec := sim.Spec[logged]{
		Build: func(flow *dataflow.Flow) logged {
			all = make([]string, len(p.clients))
			return loggedFlows[p.flow](flow)
		},
		Buffer: p.buffer, Queue: p.queue, Level: level,
		Eventually: map[string]func(*sim.View, logged) error{"it is seen": func(*sim.View, logged) error {
			seen[strings.Join(all, ";")] = true
			return nil
		}},
	}
	for i := range p.clients {
		spec.Clients = append(spec.Clients, sim.Client[logged]{Do: func(c *sim.Ctx, ports logged) (err error) {
			all[i], err = p.client(i, ports)(c)
			c.Observe(all[i])
			return err
		}})
	}
	report, err := sim.Check(t.Context(), spec, append([]sim.Option{sim.Limit(3_000)}, opts...)...)
	if err != nil && report.Complete && !strings.Contains(err.Error(), "nobody reads an output in any schedule") {
		t.Fatalf("%+v: %v", p, err)
	}
	return seen, report, report.Complete
}

// produce returns what clients see in production.
func (p loggedProgram) produce(t *testing.T) string {
	all := make([]string, len(p.clients))
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.NewWithOptions(dataflow.Options{Buffer: p.buffer, Queue: p.queue, OnBlocked: func(*dataflow.BlockedError) {}})
		ports := loggedFlows[p.flow](flow)
		if _, err := dataflow.Start(t.Context(), flow); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		for i := range p.clients {
			wg.Go(func() {
				var err error
				if all[i], err = p.client(i, ports)(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
	return strings.Join(all, ";")
}

// TestFull has clients fill outputs and queues. It catches a location that makes a step although its output is full, a client
// that is not told which output is full, a step that cannot contain more than what filled the output, and a search that omits
// schedules in which one client reads or sends before another and leaves it nothing to read, or no room.
func TestFull(t *testing.T) {
	const waits = " waits for ever, told of a full output: "
	for _, test := range []struct {
		loggedProgram
		types, engine []string // what clients see
	}{
		// The second element fills the log, in the same step as its answer.
		{loggedProgram{"one input", []string{"xxaa"}, 1, 2}, []string{" x0 x1 a0 a10"}, nil},
		{loggedProgram{"one input", []string{"xxxaaa"}, 1, 4}, []string{" x0 x1 x2 a0 a10 a" + waits + "true", " x0 x1 x2 a0 a10 a20"}, nil},
		// The third waits until half of the log was read.
		{loggedProgram{"one input", []string{"xxxxaaala"}, 2, 4}, []string{" x0 x1 x2 x3 a0 a10 a20 l0 a" + waits + "true", " x0 x1 x2 x3 a0 a10 a20 l0 a30"}, nil},
		{loggedProgram{"one input", []string{"xxxxaaalla"}, 2, 4}, []string{" x0 x1 x2 x3 a0 a10 a20 l0 l1 a30"}, nil},
		// Nobody takes records sent to a stopped location, so the sending location stops as well.
		{loggedProgram{"two locations", []string{"xaxaxaxx"}, 1, 1}, []string{" x0 a0 x2 a20 x4 a40 x6 x" + waits + "true", " x0 a0 x2 a20 x4 a40 x6 x7"}, nil},
		// The first step fills the log.
		{loggedProgram{"a constant", []string{"xa"}, 2, 4}, []string{" x0 a" + waits + "true", " x0 a0"}, []string{" x0 a" + waits + "true"}},
		// Two clients read one output. The second finds nothing, or what is sent after the first has read.
		{loggedProgram{"one input", []string{"xl", "al"}, 2, 4}, []string{" x0 l0; a0 l" + waits + "false", " x0 l" + waits + "false; a0 l0"}, nil},
	} {
		if test.engine == nil {
			test.engine = test.types
		}
		for level, want := range map[sim.Level][]string{sim.Types: test.types, sim.Engine: test.engine} {
			seen, report, complete := test.explore(t, level, sim.Limit(100_000))
			if got := slices.Sorted(maps.Keys(seen)); !complete || !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Errorf("%+v, level %v: %q, want %q; %v", test.loggedProgram, level, got, want, report)
			}
		}
	}
}

// TestFirstToRead checks that any of several clients may be the first to read an output, or to send into the last free place.
// The search would miss schedules of these programs if it did not try a reader before another reader on which it depends, or
// forgot what the last move of an execution made impossible.
func TestFirstToRead(t *testing.T) {
	for _, p := range []loggedProgram{
		{"a slice", []string{"xlxa", "al"}, 2, 1},
		{"one input", []string{"xl", "x", "aly"}, 2, 2},
		{"one input", []string{"a", "xay", "y"}, 1, 2},
		{"one input", []string{"a", "xay", "y"}, 0, 2},
		{"two inputs", []string{"xlx", "yal"}, 2, 4}, // the second one waits until there is something else to read
	} {
		p.compare(t)
	}
}

// TestFirstToTake checks that either of two clients may be the first to take an entry, even if it begins to wait after the
// other has taken it.
func TestFirstToTake(t *testing.T) {
	type shop struct {
		orders *dataflow.EntryInputPort[int, int]
		seen   *dataflow.EntryOutputPort[int, int]
		ys     *dataflow.InputPort[int]
		others *dataflow.OutputPort[int]
	}
	for _, level := range []sim.Level{sim.Types, sim.Engine} {
		for _, opts := range [][]sim.Option{nil, {sim.Unreduced()}} {
			seen := make(map[string]bool)
			var all [2]string
			take := func(c *sim.Ctx, p shop, i int) error {
				_, err := p.seen.Take(c, 1)
				all[i] = fmt.Sprint(err == nil)
				c.Observe(all[i])
				return nil
			}
			_, err := sim.Check(t.Context(), sim.Spec[shop]{
				Build: func(f *dataflow.Flow) shop {
					at := dataflow.At[Server](f)
					orders, placed := keyedsingleton.Input[int, int](at, "orders")
					ys, others := dataflow.Input[int](at, "ys")
					return shop{orders, keyedsingleton.Output(placed, "seen"), ys, dataflow.Output(others, "others")}
				},
				Level: level,
				Clients: []sim.Client[shop]{{Do: func(c *sim.Ctx, p shop) error {
					return errors.Join(p.orders.Put(c, 1, 1), take(c, p, 0))
				}}, {Do: func(c *sim.Ctx, p shop) error {
					err := p.ys.Send(c, 1)
					_, missed := p.others.Next(c)
					return errors.Join(err, missed, take(c, p, 1))
				}}},
				Eventually: map[string]func(*sim.View, shop) error{"it is seen": func(*sim.View, shop) error {
					seen[strings.Join(all[:], " ")] = true
					return nil
				}},
			}, opts...)
			if got := slices.Sorted(maps.Keys(seen)); err != nil || !slices.Equal(got, []string{"false true", "true false"}) {
				t.Errorf("level %v, %d options: %q, %v", level, len(opts), got, err)
			}
		}
	}
}

// compare explores a program with and without the reduction, and runs it in production. It returns at how many levels a client
// waits for a full output in some schedule, and at how many levels there are too many schedules.
func (p loggedProgram) compare(t *testing.T) (stuck, many int) {
	t.Helper()
	for _, level := range []sim.Level{sim.Types, sim.Engine} {
		want, whole, ok := p.explore(t, level, sim.Unreduced())
		if !ok {
			many++
			continue
		}
		got, reduced, ok := p.explore(t, level)
		if !ok || !maps.Equal(got, want) || reduced.Schedules != whole.Schedules {
			t.Errorf("%+v, level %v: %d outcomes, want %d; %+v without the reduction, %+v with it", p, level, len(got), len(want), whole, reduced)
		}
		for range 5 {
			if made := p.produce(t); !want[made] {
				t.Errorf("%+v, level %v: production shows %q, and no schedule does", p, level, made)
			}
		}
		if slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(s string) bool { return strings.Contains(s, "true") }) {
			stuck++
		}
	}
	return stuck, many
}

// TestFullAtRandom draws programs of clients that fill outputs and queues. It catches a location that continues in all
// schedules although its output is full, one that stops where production does not, and a search that misses what stops a
// location.
func TestFullAtRandom(t *testing.T) {
	stuck, many := 0, 0
	for n := range *fullPrograms {
		s, m := drawLogged(rand.New(rand.NewPCG(*flowSeed, uint64(n)))).compare(t)
		stuck, many = stuck+s, many+m
	}
	t.Logf("%d programs at two levels, %d with clients that wait for a full output, %d left out", *fullPrograms, stuck, many)
	if *fullPrograms >= 60 && (stuck == 0 || many > 2**fullPrograms*4/5) {
		t.Errorf("of %d programs at two levels clients wait for a full output in %d, and %d are left out", *fullPrograms, stuck, many)
	}
}
