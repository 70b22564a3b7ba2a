package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// A ledFlow builds a flow whose history is kept. It tells see what its functions saw.
type ledFlow func(f *dataflow.Flow, see func(string))

// A ledRun is one life of a led flow, from its start or from saved state.
type ledRun struct {
	leader *engine.Leader
	seen   []string
	calls  chan string // answers of asynchronous calls
	end    context.CancelFunc
}

func (flow ledFlow) run() (r *ledRun, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	r = &ledRun{calls: make(chan string, 1000)}
	f := newLed(dataflow.Options{Buffer: 8}, durable.CBOR(), &engine.Led{Answer: func(record []byte) error {
		r.calls <- string(record)
		return nil
	}})
	flow(f, func(s string) { r.seen = append(r.seen, s) })
	g := graphOf(f)
	ctx, cancel := context.WithCancel(context.Background())
	r.end = cancel
	g.Start(ctx)
	r.leader = g.Lead(0)
	return r, nil
}

// A ledStep is a step of a history.
type ledStep struct {
	now     int64
	records [][]byte
}

// An outcome is all that comes of a step: what it gave, and what the next one depends on.
type outcome struct {
	outputs, refused, seen string
	kept, saved, next      string
}

// outcome returns what came of a step.
func (r *ledRun) outcome(e engine.Emission) (o outcome, err error) {
	o.outputs, o.refused, o.seen = string(e.Outputs), fmt.Sprint(e.Refused), fmt.Sprint(r.seen)
	r.seen = nil
	return o, r.between(&o)
}

// between notes what there is between two steps.
func (r *ledRun) between(o *outcome) error {
	saved, err := r.leader.Save(nil)
	if err != nil {
		return fmt.Errorf("Save: %w", err)
	}
	kept, err := r.leader.Outputs(nil)
	if err != nil {
		return fmt.Errorf("Outputs: %w", err)
	}
	// When the next timer is due may be said too early, so only that there is one counts.
	_, ok := r.leader.Deadline()
	o.saved, o.kept, o.next = string(saved), string(kept), fmt.Sprint(ok, r.leader.Full())
	return nil
}

func (o outcome) differs(from outcome) error {
	for _, x := range []struct{ what, a, b string }{
		{"the functions saw", o.seen, from.seen}, {"the outputs gave", o.outputs, from.outputs},
		{"refused was", o.refused, from.refused}, {"the outputs keep", o.kept, from.kept},
		{"a timer waits, and an output is full:", o.next, from.next}, {"the saved state is", o.saved, from.saved},
	} {
		if x.a != x.b {
			return fmt.Errorf("%s %q, and without an interruption %q", x.what, x.a, x.b)
		}
	}
	return nil
}

func (r *ledRun) step(s ledStep) (outcome, error) {
	e, err := r.leader.Step(s.now, s.records)
	if err != nil {
		return outcome{}, err
	}
	return r.outcome(e)
}

// begun starts a history.
func (flow ledFlow) begun() (r *ledRun, o outcome, err error) {
	if r, err = flow.run(); err != nil {
		return nil, o, err
	}
	e, err := r.leader.Begin()
	if err != nil {
		return nil, o, err
	}
	o, err = r.outcome(e)
	return r, o, err
}

// again makes the steps of a history again, in a new life wherever interrupted says so,
// and compares what comes of each.
func (flow ledFlow) again(steps []ledStep, want []outcome, interrupted func() bool) error {
	r, got, err := flow.begun()
	if err != nil {
		return err
	}
	defer func() { r.end() }()
	if err := got.differs(want[0]); err != nil {
		return fmt.Errorf("at the start: %w", err)
	}
	for i, s := range steps {
		if interrupted() {
			r.end()
			if r, err = flow.run(); err != nil {
				return err
			}
			if err := r.leader.Load([]byte(want[i].saved), nil); err != nil {
				return fmt.Errorf("before step %d: Load: %w", i+1, err)
			}
			r.seen = nil
			loaded := outcome{outputs: want[i].outputs, refused: want[i].refused, seen: want[i].seen}
			if err := r.between(&loaded); err != nil {
				return err
			}
			if err := loaded.differs(want[i]); err != nil {
				return fmt.Errorf("before step %d, after Load: %w", i+1, err)
			}
		}
		if got, err = r.step(s); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		if err := got.differs(want[i+1]); err != nil {
			return fmt.Errorf("step %d at %v: %w", i+1, time.Duration(s.now), err)
		}
	}
	return nil
}

// threeWays runs a flow without an interruption, replays it, and restores it between
// all steps and between some. The steps are those that next gives.
func (flow ledFlow) threeWays(rng *rand.Rand, next func(r *ledRun) (ledStep, bool)) error {
	r, o, err := flow.begun()
	if err != nil {
		return err
	}
	defer func() { r.end() }()
	var steps []ledStep
	want := []outcome{o}
	for {
		s, ok := next(r)
		if !ok {
			break
		}
		if o, err = r.step(s); err != nil {
			return fmt.Errorf("step %d: %w", len(want), err)
		}
		steps, want = append(steps, s), append(want, o)
	}
	for _, way := range []struct {
		name        string
		interrupted func() bool
	}{
		{"replayed", func() bool { return false }},
		{"restored before each step", func() bool { return true }},
		{"restored before some steps", func() bool { return rng.IntN(3) == 0 }},
	} {
		if err := flow.again(steps, want, way.interrupted); err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
	}
	return nil
}

// later returns a time after now, often that of the next timer.
func (r *ledRun) later(rng *rand.Rand, now int64) int64 {
	at, ok := r.leader.Deadline()
	switch k := rng.IntN(6); {
	case ok && k == 0:
		now = max(now, at)
	case ok && k == 1:
		now = max(now, at-1)
	case ok && k == 2:
		now = max(now, at) + rng.Int64N(int64(10*time.Hour))
	case k == 3:
		now += rng.Int64N(int64(time.Hour))
	}
	return now
}

// A mailbox is where a program's records go on their way into a history, and the
// facade of the flow as its users have it.
type mailbox struct {
	rng     *rand.Rand
	waiting [][]byte
	nonce   uint64
}

func (m *mailbox) Send(_ context.Context, _ int, rs []engine.Record, unique bool) (int, error) {
	for _, r := range rs {
		if m.rng.IntN(2) == 0 {
			m.nonce++
			r.Source, r.Number = fmt.Sprint("s", m.rng.IntN(2)), m.nonce
		}
		for range 1 + m.rng.IntN(2)*m.rng.IntN(2) { // some are sent again
			if unique {
				m.nonce++
				r.Nonce = m.nonce
			} else if r.Source == "" && len(m.waiting) > 0 {
				break
			}
			m.waiting = append(m.waiting, r.Encode(nil))
			if !unique && r.Source == "" {
				break
			}
		}
	}
	return len(rs), nil
}

func (m *mailbox) Read(_ int, op int32, _ int, number uint64) {
	r := engine.ReadRecord(op, number)
	m.waiting = append(m.waiting, r.Encode(nil))
}

func (m *mailbox) Taken(_ context.Context, _ int, op int32, key []byte) error {
	r := engine.TakenRecord(op, key)
	m.waiting = append(m.waiting, r.Encode(nil))
	return nil
}

func (m *mailbox) Want(int, int32, []byte) func() { return func() {} }

// Led runs a program whose history is kept, and restores it in between. What comes of
// it without an interruption is compared with the model.
func Led(p *Program, h History, seed uint64) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	rng := rand.New(rand.NewPCG(seed, 0))
	watch := make([]bool, len(p.nodes))
	for i := range watch {
		watch[i] = !read(p, i) || rng.IntN(2) == 0
	}
	watched := func(i int) bool { return watch[i] }
	var live *builder // of the run without an interruption
	flow := ledFlow(func(f *dataflow.Flow, see func(string)) {
		b := build(context.Background(), p, dataflow.At[here](f), watched)
		b.trace = func(node int, what ...int) { see(fmt.Sprint("n", node, what)) }
		b.outputs()
		if live == nil {
			live = b
		}
	})
	box := &mailbox{rng: rng}
	facade := newRemote(dataflow.Options{}, durable.CBOR(), box)
	front := build(context.Background(), p, dataflow.At[here](facade), watched)
	readers := front.outputs()
	graph := graphOf(facade)
	graph.Start(context.Background())
	now := int64(1)
	var failed error
	next := func(r *ledRun) (ledStep, bool) {
		if failed = compareLed(live, front, graph, r); failed != nil {
			return ledStep{}, false
		}
		at, timers := r.leader.Deadline()
		if len(h) == 0 && len(box.waiting) == 0 && !timers {
			return ledStep{}, false
		}
		if len(h) == 0 {
			now = max(now, at)
		} else {
			now = r.later(rng, now)
			n := rng.IntN(min(len(h), 4) + 1)
			for _, x := range h[:n] {
				if err := front.sends[x.input](x.key, x.value); err != nil {
					failed = err
				}
			}
			h = h[n:]
		}
		for _, read := range readers {
			if rng.IntN(4) == 0 {
				read()
			}
		}
		s := ledStep{now, box.waiting}
		box.waiting = nil
		return s, failed == nil
	}
	if err := flow.threeWays(rng, next); err != nil {
		return err
	}
	return failed
}

// compareLed shows what a led flow's outputs have and compares all with the model.
func compareLed(live, front *builder, graph *engine.Graph, r *ledRun) error {
	kept, err := r.leader.Outputs(nil)
	if err != nil {
		return err
	}
	if err := graph.Feed(0, 0, kept); err != nil {
		return fmt.Errorf("Feed: %w", err)
	}
	for i, w := range live.seen {
		if _, entries := live.built[w.node].(fixed); entries { // some of which were taken
			w.now = nil
		} else if w.now != nil {
			w.now = front.seen[i].now
		}
	}
	return live.compare(true)
}

// outputs lets out what is watched, and returns what reads an element or an entry.
func (b *builder) outputs() (readers []func()) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // who finds nothing does not wait
	for _, w := range slices.Clone(b.seen) {
		name := fmt.Sprint("n", w.node, " out")
		switch s := b.built[w.node].(type) {
		case stream:
			out := dataflow.Output(s, name)
			readers = append(readers, func() { out.Next(ctx) })
		case streams:
			out := keyedstream.Output(s, name)
			readers = append(readers, func() { out.Next(ctx) })
		case fixed:
			out := keyedsingleton.Output(s, name)
			readers = append(readers, func() { out.Take(ctx, w.node%4) })
		}
	}
	return readers
}

// TestLed restores random programs from saved state between their steps and compares
// them with themselves. It catches what an operator remembers and does not save.
func TestLed(t *testing.T) {
	checkAll(t, Led)
}
