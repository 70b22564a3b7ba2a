package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// A Way says how a flow is run.
type Way int

const (
	// Simulated runs a flow as the simulator does: one record at a time, from any input
	// that has one, and each slice when the chooser decides.
	Simulated Way = iota
	// Whole is Simulated, but also chooses interleavings that cannot be told apart.
	Whole
	// Live runs a flow as in production: a step takes all waiting records, cuts every
	// slice that has new input, and ends.
	Live
	// Single is Live with one record in each step.
	Single
	// Batched is Single, but operators push the record as a batch.
	Batched
	ways
)

// String returns the name of the way.
func (w Way) String() string { return []string{"simulated", "whole", "live", "single", "batched"}[w] }

// chooser makes choices with a seed.
type chooser struct{ rng *rand.Rand }

func (c chooser) Choose(n int) int { return c.rng.IntN(n) }

// Verify runs a program and compares everything that is watched with the model, after
// each step. It returns an error that describes the difference.
func Verify(p *Program, h History, way Way, seed uint64) (err error) {
	_, err = run(p, h, way, seed, true)
	return err
}

// run runs a program, and compares it with the model if compare is set.
func run(p *Program, h History, way Way, seed uint64, compare bool) (b *builder, err error) {
	rng := rand.New(rand.NewPCG(seed, uint64(way)))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	watched := func(i int) bool { return !read(p, i) || rng.IntN(2) == 0 }
	if !compare {
		watched = func(i int) bool { return p.lives(i) < 0 && p.nodes[i].rank < 0 && !p.nodes[i].timed }
	}
	var flow *dataflow.Flow
	check := func(quiet bool) error {
		if err := graphOf(flow).Scrub(quiet); err != nil || !compare {
			return err
		}
		return b.compare(quiet)
	}
	var steps *simulate.Simulation
	if way == Simulated || way == Whole {
		flow, steps = newSimulated(chooser{rng})
	} else {
		flow = newLive()
		if way == Batched {
			graphOf(flow).PushBatches()
		}
	}
	b = build(ctx, p, flow, watched)
	b.clock = way == Simulated || way == Whole
	if way == Simulated || way == Whole {
		return b, b.drive(flow, steps, h, rng, check)
	}
	return b, b.live(flow, h, rng, way == Single || way == Batched, check)
}

// read reports whether some node reads node i.
func read(p *Program, i int) bool {
	for _, x := range p.nodes {
		for _, a := range x.args {
			if a == i {
				return true
			}
		}
	}
	return false
}

// drive sends records between the steps of a simulated flow.
func (b *builder) drive(flow *dataflow.Flow, steps *simulate.Simulation, h History, rng *rand.Rand, check func(quiet bool) error) error {
	app, err := dataflow.Start(b.ctx, flow)
	if err != nil {
		return err
	}
	if err := check(false); err != nil {
		return fmt.Errorf("at the start: %w", err)
	}
	for n := 0; ; n++ {
		if len(h) > 0 && rng.IntN(2) == 0 {
			if err := b.sends[h[0].input](h[0].key, h[0].value); err != nil {
				return err
			}
			h = h[1:]
			continue
		}
		moved := steps.Step()
		if err := app.Err(); err != nil {
			return err
		}
		if err := check(!moved); err != nil {
			return fmt.Errorf("after step %d: %w", n, err)
		}
		if !moved && len(h) == 0 {
			return nil
		}
	}
}

// live runs a flow in steps that take several records, of several inputs.
func (b *builder) live(flow *dataflow.Flow, h History, rng *rand.Rand, single bool, check func(quiet bool) error) error {
	// While the location runs a function of this input, records only wait, so that the
	// next step takes all of them.
	port, steps := dataflow.Input[func() error](b.at, "steps")
	var failed error
	dataflow.ForEach(steps, func(f func() error) { failed = f() })
	send := func(n int) error {
		for _, r := range h[:n] {
			if err := b.sends[r.input](r.key, r.value); err != nil {
				return err
			}
		}
		h = h[n:]
		return nil
	}
	if rng.IntN(2) == 0 && !single { // what is sent before the start is available when the flow starts
		if err := send(rng.IntN(len(h) + 1)); err != nil {
			return err
		}
	}
	app, err := dataflow.Start(b.ctx, flow)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		if err := app.Err(); err != nil {
			return err
		}
		if err := check(true); err != nil {
			return fmt.Errorf("after step %d: %w", n, err)
		}
		switch {
		case len(h) == 0:
			for _, f := range b.closes {
				f()
			}
			port.Close()
			if slices.ContainsFunc(b.p.nodes, func(x node) bool { return x.op.edge == timed || x.op.edge == looped }) {
				return app.Stop(b.ctx) // pending timers are far in the future
			}
			return app.Wait()
		case single || rng.IntN(4) == 0:
			err = send(1)
		default:
			size := 1 + rng.IntN(len(h))
			err = port.Send(b.ctx, func() error { return send(size) })
		}
		if err == nil {
			err = failed
		}
		if err != nil {
			return err
		}
	}
}

// compare compares what was seen with the model, in every run of a slice and now.
func (b *builder) compare(quiet bool) error {
	e := newEvaluator(b.p, b.events)
	now := len(b.events)
	for _, w := range b.observed {
		k := kinds[b.p.nodes[w.node].op.out]
		if len(w.repeatedKeys) > 0 {
			return b.differ(w.node, now, fmt.Sprint("given the keys ", w.repeatedKeys, " again"), "each comes once")
		}
		if !k.inside {
			got := w.all
			if w.now != nil {
				got = w.now()
			}
			if got, want := k.text(got), k.text(e.at(w.node, now)); got != want {
				return b.differ(w.node, now, got, want)
			}
			if w.kept != nil {
				if wrong := w.kept(e.at(w.node, now)); wrong != "" {
					return b.differ(w.node, now, "an output with "+wrong, k.text(got))
				}
			}
			continue
		}
		for t, ev := range b.events {
			if ev.slice != b.p.nodes[w.node].slice {
				continue
			}
			got := Content{}
			if w.runs[t] != nil {
				got = *w.runs[t]
			}
			if got, want := k.text(got), k.text(e.at(w.node, t)); got != want {
				return b.differ(w.node, t+1, got, want)
			}
		}
	}
	for i := range b.p.nodes {
		if err := b.takenRight(e, i, quiet && (b.clock || b.p.nodes[i].op.edge != timed)); err != nil {
			return err
		}
	}
	for s := range b.p.ranks {
		if err := b.runsRight(e, s, quiet); err != nil {
			return err
		}
	}
	return nil
}

// takenRight checks that what was taken as given was possible and, if all is set,
// complete. For timers, it checks what they were set for.
func (b *builder) takenRight(e *evaluator, i int, all bool) error {
	x, now := &b.p.nodes[i], len(b.events)
	switch {
	case b.p.recorded(i):
		if wrong := e.passed(i, all || !b.clock); wrong != "" {
			return b.differ(i, now, kinds[x.op.out].text(e.at(i, now)), wrong)
		}
		return nil
	case x.op.edge != timed && x.op.edge != looped && x.op.edge != arranged:
		return nil
	case x.op.judgment != nil:
		if wrong := x.op.judgment(e, i, all); wrong != "" {
			return b.differ(i, now, kinds[x.op.out].text(e.at(i, now)), wrong)
		}
		return nil
	}
	for t, ev := range b.events {
		if ev.slice >= 0 || ev.node != i {
			continue
		}
		if _, again := e.at(i, t).Entries[ev.key]; again {
			return b.differ(i, t+1, fmt.Sprint("the entry of ", ev.key, ", again"), "it comes once")
		}
		if v, set := e.at(x.args[0], t).Entries[ev.key]; !set || v != ev.value {
			return b.differ(i, t+1, fmt.Sprintf("%d:%d", ev.key, ev.value), kinds[x.op.out].text(e.at(x.args[0], t)))
		}
	}
	if got, want := kinds[x.op.out].text(e.at(i, now)), kinds[x.op.out].text(e.at(x.args[0], now)); all && got != want {
		return b.differ(i, now, got, want)
	}
	return nil
}

// runsRight checks that a slice ran only when it had new input, and, if the flow is
// quiet, that it has seen all input.
func (b *builder) runsRight(e *evaluator, s int, quiet bool) error {
	last := -1
	for t, ev := range b.events {
		if ev.slice == s {
			if !b.news(e, s, last, t) {
				return fmt.Errorf("slice %d ran without news\n%s", s, b.story(t+1))
			}
			last = t
		}
	}
	if !quiet {
		return nil
	}
	now := len(b.events)
	for i := range b.p.nodes {
		x := &b.p.nodes[i]
		if x.slice != s || x.passive || x.op.edge != batch && x.op.edge != snapshot {
			continue
		}
		k, before := kinds[b.p.nodes[x.args[0]].op.out], Content{}
		if last >= 0 {
			before = e.at(x.args[0], last)
		}
		missed := k.text(e.at(x.args[0], now)) != k.text(before)
		if last < 0 && k.shape == single {
			missed = true
		}
		if missed {
			return fmt.Errorf("slice %d has not seen what n%d lets in: %s\n%s", s, i, k.text(e.at(x.args[0], now)), b.story(now))
		}
	}
	return nil
}

// news reports whether slice s had a reason to run at event t, after its run at event
// last.
func (b *builder) news(e *evaluator, s, last, t int) bool {
	for i := range b.p.nodes {
		x := &b.p.nodes[i]
		if x.slice != s {
			continue
		}
		if x.op.edge == batch && e.at(i, t).size() > 0 {
			return true
		}
		if x.op.edge == snapshot && !x.passive && (last < 0 || e.fed(x.args[0], t) > e.fed(x.args[0], last)) {
			return true
		}
	}
	return false
}

func (b *builder) differ(i, t int, got, want string) error {
	return fmt.Errorf("n%d is %s, and the model says %s\n%s", i, got, want, b.story(t))
}

// story formats the first t events.
func (b *builder) story(t int) string {
	var out strings.Builder
	out.WriteString("what happened:")
	for _, ev := range b.events[:t] {
		if ev.slice >= 0 {
			fmt.Fprintf(&out, " [slice %d]", ev.slice)
		} else if ev.all != nil {
			fmt.Fprintf(&out, " n%d=%v", ev.node, ev.all)
		} else {
			fmt.Fprintf(&out, " n%d<-%d:%d", ev.node, ev.key, ev.value)
		}
	}
	return out.String()
}

// Agree runs a program in several ways and compares the collections that no slice has
// touched. It returns an error that describes the difference. Inputs have no order
// between them, so it compares only the final contents, without the order of what was
// sent to several inputs.
func Agree(p *Program, h History, seed uint64) error {
	var ends [ways]map[int]string
	for way := range ways {
		b, err := run(p, h, way, seed, false)
		if err != nil {
			return fmt.Errorf("%v: %w", way, err)
		}
		ends[way] = make(map[int]string)
		for _, w := range b.observed {
			got := w.all
			if w.now != nil {
				got = w.now()
			}
			ends[way][w.node] = kinds[p.nodes[w.node].op.out].text(got)
			if first := ends[0][w.node]; first != ends[way][w.node] {
				return fmt.Errorf("n%d is %s if %v, and %s if %v", w.node, first, Way(0), ends[way][w.node], way)
			}
		}
	}
	return nil
}
