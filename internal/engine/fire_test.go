package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/live"
	"github.com/millrace/millrace/internal/engine/logdriven"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// A clockwork is a log-driven graph of timers, drawn from a seed. Each value is the time at which
// it should come, so that every value can be checked.
type clockwork struct {
	loc    *engine.Location
	leader *logdriven.Executor
	in     *port.KeyedInput[int, int64]
	came   []int64         // values of all timers
	each   map[int][]int64 // values by timer
}

// newClockwork draws n timers, each after the input or another timer. Some have operators in
// between that keep or drop values.
func newClockwork(seed uint64, n int) *clockwork {
	r := rand.New(rand.NewPCG(seed, 1))
	c := &clockwork{each: make(map[int][]int64)}
	g := engine.New(engine.Settings{Queue: 64, Buffer: 1 << 20, Wrap: func(p *engine.Panic) error { return p }})
	logdriven.Drive(g, jsonCodec{}, nil)
	s := g.NewLocation("here")
	in, from := port.NewKeyedInput[int, int64](s, engine.NewOp(s, "in", ""))
	c.loc, c.in = s, in
	nodes := []*engine.KeyedNode[int, int64]{from}
	for i := range n {
		d := int64(r.IntN(6))
		from := nodes[0]
		if r.IntN(3) == 0 {
			from = nodes[r.IntN(len(nodes))]
		}
		if r.IntN(2) == 0 {
			from = operators.KFilterMap(from, engine.NewOp(s, fmt.Sprint("FilterMap ", i), ""), func(k int, at int64) (int64, bool) { return at, k%5 > 0 })
		}
		var each func(int64) time.Duration
		if r.IntN(2) == 0 {
			each = func(int64) time.Duration { return time.Duration(d) }
		}
		timer := operators.After(from, engine.NewOp(s, fmt.Sprint("After ", i), ""), time.Duration(d), each)
		due := operators.KMap(timer, engine.NewOp(s, fmt.Sprint("KMap ", i), ""), func(at int64) int64 { return at + d })
		operators.KInspect(due, engine.NewOp(s, fmt.Sprint("KInspect ", i), ""), func(_ int, at int64) {
			c.came = append(c.came, at)
			c.each[i] = append(c.each[i], at)
		})
		nodes = append(nodes, due)
	}
	g.Start(context.Background())
	c.leader = logdriven.NewExecutor(g, 0)
	return c
}

// run sends elements at times drawn from a seed, some of them after long pauses.
func (c *clockwork) run(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 2))
	now := int64(0)
	for range 40 {
		if now++; r.IntN(3) == 0 {
			now += int64(r.IntN(30))
		}
		var records [][]byte
		for range r.IntN(3) {
			rec := codec.Record{Op: c.in.Op.Index, Key: fmt.Append(nil, r.IntN(100)), Value: fmt.Append(nil, now)}
			records = append(records, rec.Encode(nil))
		}
		if _, err := c.leader.Step(now, records, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.leader.Step(now+1000, nil, nil); err != nil {
		t.Fatal(err)
	}
}

// TestTimersInOrderOfDeadline runs random timers, some of which follow other timers, with pauses.
// Timers that are due at once fire in order of deadline, and firing them in a batch makes no
// difference.
func TestTimersInOrderOfDeadline(t *testing.T) {
	batched := 0
	for seed := range uint64(300) {
		n := 1 + int(seed%7)
		c, slow := newClockwork(seed, n), newClockwork(seed, n)
		engine.EachTimer(slow.loc, func(_ *engine.Op, stepwise *bool) {
			if !*stepwise {
				*stepwise = true
				batched++
			}
		})
		c.run(t, seed)
		slow.run(t, seed)
		if !slices.IsSorted(c.came) {
			t.Fatalf("seed %d: timers came out of order: %v", seed, c.came)
		}
		if !slices.Equal(c.came, slow.came) {
			t.Fatalf("seed %d: in batches came\n%v, one deadline at a time\n%v", seed, c.came, slow.came)
		}
		for i := range n {
			if !slices.Equal(c.each[i], slow.each[i]) {
				t.Fatalf("seed %d: of timer %d came in batches\n%v, one deadline at a time\n%v", seed, i, c.each[i], slow.each[i])
			}
		}
	}
	if batched == 0 {
		t.Error("no timers were batched: the test compares nothing")
	}
}

// TestWhichTimersAreStepwise checks which timers fire one deadline at a time: those that other
// timers follow with no record in between.
func TestWhichTimersAreStepwise(t *testing.T) {
	g := live.Drive(engine.New(engine.Settings{Queue: 64, Buffer: 64, Wrap: func(p *engine.Panic) error { return p }}))
	s := g.NewLocation("here")
	_, in := port.NewKeyedInput[int, int](s, engine.NewOp(s, "in", ""))
	after := func(from *engine.KeyedNode[int, int], name string) *engine.KeyedNode[int, int] {
		return operators.KMap(operators.After(from, engine.NewOp(s, name, ""), 1, nil), engine.NewOp(s, "KMap", ""), func(x int) int { return x })
	}
	first := after(in, "followed by a timer")
	after(first, "last")
	operators.ForgetAfter(after(in, "followed by ForgetAfter"), engine.NewOp(s, "forgets", ""), 1)
	operators.FirstWithin(after(in, "followed by a memory"), engine.NewOp(s, "turns", ""), operators.Retain{For: 1})
	answers := port.MapAsync(after(in, "followed by a call"), engine.NewOp(s, "call", ""), func(_ context.Context, _ int, x int) int { return x }, 1)
	after(answers, "after a call")
	g.Start(context.Background())
	defer g.Stop()
	want := map[string]bool{
		"followed by a timer": true, "last": false, "followed by ForgetAfter": true, "forgets": false,
		"followed by a memory": true, "turns": true, "followed by a call": false, "after a call": false,
	}
	engine.EachTimer(s, func(op *engine.Op, is *bool) {
		if stepwise, ok := want[op.Name]; !ok || stepwise != *is {
			t.Errorf("%s: one deadline at a time is %v", op.Name, *is)
		}
		delete(want, op.Name)
	})
	if len(want) > 0 {
		t.Errorf("not seen: %v", want)
	}
}

// BenchmarkStalledTimers fires a million timers of different deadlines that come due at once: of
// one operator, of two whose deadlines alternate, and of two in a chain.
func BenchmarkStalledTimers(b *testing.B) {
	const pending = 1 << 20
	for _, bench := range []struct {
		name  string
		build func(s *engine.Location, in *engine.KeyedNode[int, int])
	}{
		{"queues=1", func(s *engine.Location, in *engine.KeyedNode[int, int]) {
			operators.After(in, engine.NewOp(s, "After", ""), 2*pending, nil)
		}},
		{"queues=2", func(s *engine.Location, in *engine.KeyedNode[int, int]) {
			even := func(k, x int) (int, bool) { return x, k%2 == 0 }
			odd := func(k, x int) (int, bool) { return x, k%2 == 1 }
			operators.After(operators.KFilterMap(in, engine.NewOp(s, "even", ""), even), engine.NewOp(s, "After", ""), 2*pending, nil)
			operators.After(operators.KFilterMap(in, engine.NewOp(s, "odd", ""), odd), engine.NewOp(s, "After", ""), 2*pending, nil)
		}},
		{"chained", func(s *engine.Location, in *engine.KeyedNode[int, int]) {
			operators.After(operators.After(in, engine.NewOp(s, "After", ""), 2*pending, nil), engine.NewOp(s, "After", ""), 0, nil)
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			g := engine.New(engine.Settings{Queue: 64, Buffer: 64, Wrap: func(p *engine.Panic) error { return p }})
			logdriven.Drive(g, jsonCodec{}, nil)
			s := g.NewLocation("here")
			_, n := port.NewKeyedInput[int, int](s, engine.NewOp(s, "in", ""))
			bench.build(s, n)
			g.Start(context.Background())
			start := int64(0)
			for b.Loop() {
				b.StopTimer()
				for k := range pending {
					engine.SetNow(s, start+int64(k)+1)
					n.One(k, k, 0)
				}
				start += 4 * pending
				b.StartTimer()
				engine.FireUntil(s, start)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/pending, "ns/timer")
		})
	}
}
