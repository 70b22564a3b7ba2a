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
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/identity"
	"github.com/millrace/millrace/internal/engine/logdriven"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// later returns a time after now, often that of the next timer.
func (r *logDrivenRun) later(rng *rand.Rand, now int64) int64 {
	at, ok := r.executor.Deadline()
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

// A mailbox is the remote of a facade: it collects the records that users of the flow send,
// until a step of the history takes them.
type mailbox struct {
	rng     *rand.Rand
	waiting [][]byte
	nonce   uint64
}

func (m *mailbox) Send(_ context.Context, _ int, rs []codec.Record) (int, error) {
	m.keep(rs, false)
	return len(rs), nil
}

func (m *mailbox) Put(_ context.Context, _ int, rs []codec.Record) []error {
	m.keep(rs, true)
	return make([]error, len(rs))
}

func (m *mailbox) keep(rs []codec.Record, unique bool) {
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
}

func (m *mailbox) Read(_ int, op int32, _ int, number uint64) {
	r := logdriven.ReadRecord(op, number)
	m.waiting = append(m.waiting, r.Encode(nil))
}

func (m *mailbox) Take(_ context.Context, _ int, op int32, key []byte) error {
	r := logdriven.TakenRecord(op, key)
	m.waiting = append(m.waiting, r.Encode(nil))
	return nil
}

func (m *mailbox) Given(context.Context, int32, int) (uint64, bool, error) { return 0, false, nil }

func (m *mailbox) Want(ctx context.Context, _ int, _ int32, _ []byte) (context.Context, func()) {
	return ctx, func() {}
}

func (m *mailbox) Stopped(int) *engine.Blocked { return nil }

// LogDriven runs a program in a log-driven flow and compares the result with the model. It
// then repeats the run, restored from saved state between steps.
func LogDriven(p *Program, h History, seed uint64) (err error) {
	return logDrivenForgetting(p, h, seed, nil)
}

// logDrivenForgetting is LogDriven with operators that do not register the state that forget
// selects.
func logDrivenForgetting(p *Program, h History, seed uint64, forget engine.Forget) (err error) {
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
	var live *builder  // of the uninterrupted run
	var calls [][]byte // answers to calls
	asks := callsOf(p)
	flow := logDrivenFlow(func(f *dataflow.Flow, see func(string)) {
		graphOf(f).Check(forget)
		ask := asks.into(f, &calls)
		if live != nil {
			ask = nil // its calls were answered
		}
		b := buildAsking(context.Background(), p, f, watched, ask)
		b.trace = func(node int, what ...int) { see(fmt.Sprint("n", node, what)) }
		b.outputs()
		if live == nil {
			live = b
		}
	})
	box := &mailbox{rng: rng}
	facade := newRemote(dataflow.Options{}, durable.CBOR(), box)
	front := build(context.Background(), p, facade, watched)
	readers := front.outputs()
	graph := graphOf(facade)
	graph.Start(context.Background())
	now := int64(1)
	var failed error
	var mail post
	left := 30                // steps in which only time passes
	compared := forget != nil // forgotten state makes the identities differ
	next := func(r *logDrivenRun) (logDrivenStep, bool) {
		if !compared {
			if failed = sameIdentities(r.graph, graph); failed != nil {
				return logDrivenStep{}, false
			}
			compared = true
		}
		if failed = compareLogDriven(live, front, graph, r); failed != nil {
			return logDrivenStep{}, false
		}
		mail.collect(r, rng)
		mail.put(0, box.waiting...)
		box.waiting = nil
		at, timers := r.executor.Deadline()
		switch quiet := len(h) == 0 && len(calls) == 0 && mail.empty(); {
		case quiet && (!timers || left == 0):
			return logDrivenStep{}, false
		case quiet:
			left--
			now = max(now, at)
		default:
			now = r.later(rng, now)
			n := rng.IntN(min(len(h), 4) + 1)
			for _, x := range h[:n] {
				if err := front.sends[x.input](x.key, x.value); err != nil {
					failed = err
				}
			}
			h = h[n:]
			n = rng.IntN(len(calls) + 1)
			mail.put(0, calls[:n]...)
			calls = calls[n:]
		}
		for _, read := range readers {
			if rng.IntN(4) == 0 {
				read()
			}
		}
		mail.put(0, box.waiting...)
		box.waiting = nil
		return mail.step(rng, len(r.executors), now), failed == nil
	}
	if err := flow.threeWays(rng, next); err != nil {
		return err
	}
	return failed
}

// sameIdentities checks that the ports of a flow and its executor agree on its shape.
func sameIdentities(leads, ports *engine.Graph) error {
	for i, s := range leads.Locations {
		if a, b := identity.Of(s).String(), identity.Of(ports.Locations[i]).String(); a != b {
			return fmt.Errorf("the executor's shape is\n%s, and that of the ports\n%s", a, b)
		}
	}
	return nil
}

// compareLogDriven feeds the outputs of a log-driven flow to its ports and compares everything
// with the model.
func compareLogDriven(live, front *builder, graph *engine.Graph, r *logDrivenRun) error {
	kept, err := r.executor.Outputs(nil)
	if err != nil {
		return err
	}
	if err := logdriven.Feed(graph, 0, 0, nil, kept); err != nil {
		return fmt.Errorf("Feed: %w", err)
	}
	for i, w := range live.observed {
		if _, entries := live.built[w.node].(fixed); entries { // some of them were taken
			w.now = nil
		} else if w.now != nil {
			w.now = front.observed[i].now
		}
	}
	return live.compare(true)
}

// outputs adds an output for each watched node, and returns functions that read an element or
// an entry of it.
func (b *builder) outputs() (readers []func()) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // a reader that finds nothing does not wait
	for _, w := range slices.Clone(b.observed) {
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

// TestLogDriven restores random programs from saved state between their steps and compares
// each with its uninterrupted run. It catches state that an operator holds and does not save.
func TestLogDriven(t *testing.T) {
	checkAll(t, durables(), LogDriven)
}

// durables returns the operators that a log-driven flow may contain.
func durables() []operator {
	return slices.DeleteFunc(operators(), func(op operator) bool { return op.name == "keyedstream.Divide" })
}
