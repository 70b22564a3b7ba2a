package sim

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// A specRun is one schedule of a specification.
type specRun struct {
	s       *Sim
	plan    *plan
	inst    instance
	clients []*Ctx
	moves   int64
	history []*Op
	touched []engine.Object // what clients have written in the move being made, outside the flow

	property  string // the first property that does not hold
	err       error
	discarded bool
	ended     bool // by a check for absence
	atRest    bool // the property is one that is checked at the end
	held      []bool
	events    []*Op // not yet passed to the monitors
	reasons   reasons
	chart     *chart         // nil if nobody reads it
	missed    simulate.Known // what properties look at, as far as the search did not know it before
}

// maxMoves limits the moves of a schedule, so that a client that polls ends.
const maxMoves = 100_000

// run runs the schedule.
func (x *specRun) run() {
	x.s.Inject(x.plan.faults)
	if x.plan.retries > 0 {
		x.s.Retry(x.plan.retries)
	}
	if x.plan.buffer > 0 {
		x.s.Buffer(x.plan.buffer)
	}
	if x.plan.queue > 0 {
		x.s.Queue(x.plan.queue)
	}
	if x.plan.callsShareNothing {
		x.s.CallsShareNothing()
	}
	x.inst = x.plan.build(x.s.flow)
	x.held = make([]bool, len(x.inst.sometimes))
	var clients []func()
	for i, do := range x.inst.clients {
		c := &Ctx{Context: x.s.Context(), s: x.s, number: i, name: x.plan.clients[i]}
		x.clients = append(x.clients, c)
		clients = append(clients, func() { c.run(do) })
	}
	x.s.choices.acts = make([]int, len(clients))
	x.reasons.find(graphOf(x.s.flow))
	if x.s.observed.notes != nil {
		x.chart = &x.s.observed.notes.chart
		x.chart.begin(x.plan.clients, graphOf(x.s.flow), x.s.simulation.Clock)
	}
	if _, err := dataflow.Start(x.s.Context(), x.s.flow); err != nil {
		x.fail("start", err)
		return
	}
	if len(x.inst.monitors) > 0 {
		for i := range x.clients {
			x.looks(x.watchers()-1+len(x.inst.always), client(i))
		}
	}
	x.look()
	if x.err == nil {
		x.s.simulation.Run(clients...)
	}
	if x.err == nil && !x.discarded && !x.ended && !x.s.choices.blocked() && !x.s.choices.cut {
		x.rest()
	}
}

func newSpecRun(s *Sim, p *plan) *specRun {
	x := &specRun{s: s, plan: p}
	s.choices.spec = x
	return x
}

// unknown returns what the reduction did not know: which outputs are read, and what properties
// look at.
func (x *specRun) unknown() simulate.Known {
	all := x.s.simulation.Missed()
	all.Add(x.missed)
	return all
}

// used notes a client's use of a port.
func (x *specRun) used(number int, u engine.Use) {
	if x.chart != nil {
		x.chart.used(number, u)
	}
	c := x.clients[number]
	_, name, named := strings.Cut(u.Op.Name, " ")
	if !named {
		name = u.Op.Name
	}
	at := x.now()
	op := &Op{Client: c.name, Port: name, Do: u.Do, Key: u.Key, Value: u.Value, OK: u.OK, Err: u.Err, Call: at, Return: at}
	switch u.Do {
	case "send", "put", "close":
		op.OK = u.Err == nil
	}
	for _, call := range c.open {
		if call.Call == 0 {
			call.Call = at
		}
		x.touched = append(x.touched, clientOp(number, call.Port))
	}
	x.history, x.events = append(x.history, op), append(x.events, op)
	x.touched = append(x.touched, client(number), clientOp(number, name))
	what := digest.Of(op.Port + " " + op.Do)
	for _, y := range []any{op.Key, op.Value, op.OK} {
		what = engine.ChainDigest(what, digest.Of(y))
	}
	if op.Err != nil {
		what = engine.ChainDigest(what, digest.Of(op.Err.Error()))
	}
	c.observed(what)
}

// moving is called before each chosen move.
func (x *specRun) moving(m *simulate.Move, among int) {
	x.reasons.offered(m, among)
	if m.Kind == simulate.Acts {
		x.s.choices.acts[m.Op]++
	}
	if x.chart != nil {
		x.chart.move(m)
	}
}

// made is called after each move. It adds what the move changed outside the flow to the
// effect, and calls the properties.
func (x *specRun) made(e *simulate.Effect) {
	x.moves++
	x.reasons.made(e)
	read := x.s.choices.known().Read
	for i := range x.inst.always {
		if x.changes(i, e, read) {
			x.touched = append(x.touched, visible(i))
		}
	}
	for i := range x.watchers() {
		i += len(x.inst.always)
		if x.changes(i, e, read) {
			x.touched = append(x.touched, visible(i))
		}
	}
	if len(x.touched) > 0 {
		e.Touch(x.touched...)
		x.touched = x.touched[:0]
	}
	if x.err != nil || x.discarded || x.ended {
		return
	}
	x.watch()
	x.look()
	if x.moves == maxMoves && x.err == nil {
		x.fail("end", fmt.Errorf("the schedule has not ended after %d moves: a client or the flow goes round; %s", maxMoves, x.last()))
	}
}

// watchers returns the number of properties that are checked at the end, plus one for the
// monitors.
func (x *specRun) watchers() int {
	return len(x.inst.eventually) + len(x.inst.sometimes) + len(x.inst.linear) + 1
}

// changes reports whether a move changes what property number i looks at.
func (x *specRun) changes(i int, e *simulate.Effect, read map[engine.Object]bool) bool {
	if len(read) == 0 {
		return false
	}
	for _, t := range e.Touched {
		if t.Access != engine.Reads && read[looksAt(i, t.Object)] {
			return true
		}
	}
	for _, o := range x.touched {
		if read[looksAt(i, o)] {
			return true
		}
	}
	return false
}

// looks notes that property number i looks at o.
func (x *specRun) looks(i int, o engine.Object) {
	at := looksAt(i, o)
	if !x.s.choices.known().Read[at] {
		x.missed.See(at)
	}
}

// look checks the Always properties.
func (x *specRun) look() {
	for i, p := range x.inst.always {
		if err := x.check(i, p, false); err != nil {
			x.fail(p.name, err)
			return
		}
	}
}

// rest checks the properties that must hold when the flow is at rest.
func (x *specRun) rest() {
	defer func() { x.atRest = x.err != nil }()
	if err := graphOf(x.s.flow).Err(); err != nil {
		x.fail("the flow does not fail", err)
		return
	}
	n := len(x.inst.always)
	for i, p := range x.inst.eventually {
		if err := x.check(n+i, p, true); err != nil && !x.ended {
			x.fail(p.name, err)
			return
		}
	}
	n += len(x.inst.eventually)
	for i, p := range x.inst.sometimes {
		err := x.check(n+i, p, true)
		if err != nil && !errors.Is(err, errNot) {
			x.fail(p.name, err)
			return
		}
		x.held[i] = err == nil
	}
	n += len(x.inst.sometimes)
	for i, p := range x.inst.linear {
		if err := x.check(n+i, p, true); err != nil {
			x.fail(p.name, err)
			return
		}
	}
	x.cold()
}

// check calls property p.
func (x *specRun) check(number int, p property, end bool) (err error) {
	v := &View{spec: x, number: number, end: end}
	wrong := x.s.simulation.Look(func() { err = x.guard(func() error { return p.check(v) }) }, func(o engine.Object) {
		if !end {
			x.looks(number, o)
		}
	})
	if wrong != nil {
		return wrong
	}
	return err
}

// guard calls f and returns a panic of f as an error.
func (x *specRun) guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			x.s.Logf("%s", debug.Stack())
			err = fmt.Errorf("it panicked: %v", p)
		}
	}()
	return f()
}

// fail ends the schedule with a property that does not hold, unless the schedule has failed
// already.
func (x *specRun) fail(property string, err error) {
	if x.err != nil {
		return
	}
	x.property, x.err = property, err
	if x.chart != nil && x.chart.clock != nil {
		x.chart.failed(property, err)
	}
	x.s.failed = true
	x.s.end()
}

// now is the number of the move being made.
func (x *specRun) now() int64 { return x.moves + 1 }

// ops returns a copy of the history of the clients.
func (x *specRun) ops() []Op {
	all := make([]Op, len(x.history))
	for i, op := range x.history {
		all[i] = *op
	}
	return all
}

// last describes the last use of a port.
func (x *specRun) last() string {
	if len(x.history) == 0 {
		return "no client has used a port"
	}
	op := x.history[len(x.history)-1]
	return fmt.Sprintf("%s has used %s last", op.Client, op.Port)
}
