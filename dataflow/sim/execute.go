package sim

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// An execution is the result of running one schedule.
type execution struct {
	failed    bool
	discarded bool
	blocked   bool   // it was given up, since it is the same schedule as another one
	shown     uint64 // digest of what observers saw
	trace     string // the choices
	log       []string
	notes     []string // what was chosen, if requested
	outputs   []output // which outputs were read, and what is left in them
	unchecked unchecked

	made  []int  // the choices
	among []int  // how many possibilities each of them had
	steps []step // the choices, moves by name
	moves int
	known simulate.Known

	property string // of a specification: the property that does not hold
	err      error
	atRest   bool  // the property was checked when the flow was at rest
	acts     []int // the number of moves that each client has made
	spec     *specRun
}

// story returns what was chosen and what was logged, one line each.
func (e execution) story() string {
	var b strings.Builder
	for i, note := range e.notes {
		fmt.Fprintf(&b, "%4d  %s\n", i+1, note)
	}
	for _, line := range e.log {
		fmt.Fprintf(&b, "      %s\n", strings.ReplaceAll(line, "\n", "\n      "))
	}
	return strings.TrimRight(b.String(), "\n")
}

// printout collects the notes of a schedule that is printed.
type printout struct {
	notes []string
	chart chart
}

// execute runs one schedule.
func (x subject) execute(c chooser, notes *printout) execution { return x.executeOn(c, notes, nil) }

// executeOn runs one schedule, or a recorded one if recording is not nil.
func (x subject) executeOn(c chooser, notes *printout, recording *dataflow.Recording) (e execution) {
	s := &Sim{choices: newChoices(c), observed: newObservations(notes)}
	s.ctx, s.flow = context.WithValue(x.ctx, simKey{}, s), dataflow.New()
	defer graphOf(s.flow).Abandon() // all schedules of a test share one context
	switch {
	case x.plan != nil:
		s.simulate(c, x.level)
		s.spec = newSpecRun(s, x.plan)
		s.spec.run()
		e.discarded, e.property, e.err = s.spec.discarded, s.spec.property, s.spec.err
		e.atRest, e.acts = s.spec.atRest, s.choices.acts
		s.choices.ended(s.spec.unknown(), s.simulation.Shared())
	case recording == nil:
		s.simulate(c, x.level)
		if x.from != nil {
			s.simulation.Continue(historyOf(x.from))
		}
		s.simulation.Run(func() { e.discarded = s.call(x.f) })
		s.choices.ended(s.simulation.Missed(), s.simulation.Shared())
	default:
		s.steps = simulate.NewReplay(graphOf(s.flow), historyOf(recording), s.observed)
		e.discarded = s.call(x.f)
	}
	e.blocked = s.choices.blocked()
	if !s.failed && !e.discarded && !e.blocked {
		s.observed.lookForChange()
		if aliased := s.observed.changed(); aliased != "" {
			s.Errorf("%s", aliased)
			if s.spec != nil {
				e.property, e.err = "values are not changed", errors.New(aliased)
			}
		}
	}
	e.failed, e.log, e.trace, e.shown = s.failed, s.log, traceOf(s.choices.made), s.observed.digest()
	e.made, e.among, e.steps, e.moves = s.choices.made, s.choices.among, s.choices.steps, s.choices.moves
	e.unchecked, e.known = s.observed.unchecked, s.choices.known()
	if !e.failed && !e.discarded && !e.blocked && recording == nil {
		e.outputs = outputsOf(graphOf(s.flow))
	}
	e.spec = s.spec
	if s.simulation != nil && repeatsOf(c) > 1 && s.simulation.Repeated() > 0 {
		e.trace = manyRepeats + e.trace
	}
	if notes != nil {
		e.notes = notes.notes
	}
	return e
}

// simulate puts the flow of this schedule under simulation.
func (s *Sim) simulate(c chooser, level Level) {
	s.simulation = simulate.Drive(graphOf(s.flow), s.choices, s.observed, s.choices.known())
	s.simulation.SetLevel(level.simulated())
	s.simulation.Repeat(repeatsOf(c))
	s.steps = s.simulation
}

// end ends the schedule.
func (s *Sim) end() {
	if s.simulation != nil {
		s.simulation.End()
	}
}

// manyRepeats begins the trace of a schedule that has repeats and was not chosen by
// [Exhaustive]. Such a schedule may have more repeats, so its choices have another
// meaning.
const manyRepeats = "*"

// repeatsOf returns how many records of retried inputs may be taken again in a schedule.
// It is one if all schedules are tried, since each further repeat multiplies them.
func repeatsOf(c chooser) int {
	switch c := c.(type) {
	case *descent, *namedScript:
		return 1
	case *script:
		return c.repeats
	}
	return 3
}

// call calls f, runs the flow until it is quiet, and reports whether the schedule is to
// be discarded.
func (s *Sim) call(f func(*Sim)) (discarded bool) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case errFatal, errEnded:
			s.end()
		case errDiscarded:
			discarded = true
		default:
			panic(p)
		}
	}()
	f(s)
	if s.app != nil {
		s.Quiesce()
	}
	return false
}

// observations is what the observers of a schedule saw.
type observations struct {
	streams map[stream]uint64
	order   uint64 // digest of what the test received, in order
	values  []published
	notes   *printout

	unchecked   unchecked
	changeNoted bool // the first changed value was noted
}

// A stream is what one observer sees.
type stream struct {
	location string
	id       uint64
}

// A published value is one that an operator emitted, with its digest at that time.
type published struct {
	op     *engine.Op
	value  any
	digest uint64
}

func newObservations(notes *printout) *observations {
	return &observations{streams: make(map[stream]uint64), notes: notes}
}

func chain(sofar, what uint64) uint64 { return (sofar^what)*0x9e3779b97f4a7c15 + 1 }

// Observed implements engine.Watcher.
func (s *observations) Observed(location string, id, what uint64) {
	k := stream{location, id}
	s.streams[k] = chain(s.streams[k], what)
}

// Note implements engine.Watcher.
func (s *observations) Note(text func() string) {
	if s.notes != nil {
		s.lookForChange()
		said := text()
		s.notes.notes = append(s.notes.notes, said)
		s.notes.chart.note(said)
	}
}

// Published implements engine.Watcher.
func (s *observations) Published(op *engine.Op, value any) {
	if !digest.Refers(reflect.TypeOf(value)) {
		return
	}
	s.values = append(s.values, published{op, value, digest.Of(value)})
}

// received notes a value that the test received, in order.
func (s *observations) received(what any) { s.order = chain(s.order, digest.Of(what)) }

// digest returns a digest of everything that was seen. The observations of different
// observers have no order between them.
func (s *observations) digest() uint64 {
	all := s.order
	for k, what := range s.streams {
		all += chain(chain(digest.Of(k.location), k.id), what)
	}
	return all
}

// changed says which value was changed after an operator emitted it. It returns "" if
// there is none.
func (s *observations) changed() string {
	byOp := make(map[*engine.Op]published)
	for _, p := range s.values {
		if digest.Of(p.value) != p.digest {
			byOp[p.op] = p
		}
	}
	lines := make([]string, 0, len(byOp))
	for _, p := range byOp {
		lines = append(lines, fmt.Sprintf("a value was changed after %s had let it out; it is now %v: return a new value instead of changing one in place", p.op, p.value))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
