package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine"
)

// A Kind says what kind of move it is.
type Kind uint8

const (
	Acts    Kind = iota // a caller of ports continues
	Cuts                // a slice is cut
	Takes               // a record is taken
	Calls               // an asynchronous call is made
	Fires               // the timers of a deadline fire
	Settle              // a location at which nothing can happen ends, or accepts an ending
	Ends                // a step ends; see [Engine]
	Answers             // the answer of a made call is accepted; see [Engine]
	Resumes             // a call continues from a point; see [Simulation.Point]
)

// A Name identifies what makes a move: a caller, a slice, a lane of an input, a call, or the timers of a location. Each has at
// most one possible next move.
type Name struct {
	Kind     Kind
	Location int32
	Op       int32 // the operator, the number of the slice, or the number of the caller
	ID       uint64
}

// A Move is what can happen next.
type Move struct {
	Name
	loc       *engine.Location
	region    *engine.Region
	in        engine.Input
	head      int
	calls     engine.Calling
	call      int
	deadline  int64
	clock     *clock // whose timers fire
	client    *client
	suspended *suspendedCall  // the call that continues
	delayed   *delayedMessage // the delayed message that is taken, or nil
	quiet     bool            // the caller waits for something that will never come
}

// Cuts reports whether a slice is cut.
func (m *Move) Cuts() bool { return m.Kind == Cuts }

// Reasons returns the operators with a reason for what a cut lets in.
func (m *Move) Reasons() []*engine.Op {
	if m.region == nil {
		return nil
	}
	return m.region.Reasons
}

// In returns the input from which a record is taken, or nil.
func (m *Move) In() *engine.Op {
	if m.in == nil {
		return nil
	}
	return m.in.Base().Op
}

// First reports whether the taken record is the oldest that waits in its input.
func (m *Move) First() bool { return m.in != nil && m.head == 0 }

// Value returns the taken record as text, with its key if it has one.
func (m *Move) Value() string {
	if m.delayed != nil {
		return m.delayed.text
	}
	return m.in.RecordText(m.head)
}

// String returns the move as traces name it.
func (m Move) String() string {
	switch m.Kind {
	case Cuts:
		return "cut " + m.region.String() + m.region.Whys()
	case Takes:
		return fmt.Sprintf("take %s from %s", m.Value(), m.In())
	case Calls:
		return fmt.Sprintf("call %s of %s", m.calls.CallText(m.call), m.calls.Operator())
	case Resumes:
		return fmt.Sprintf("go on with the call %s of %s: %s", m.suspended.text, m.suspended.calls.Operator(), m.suspended.at)
	case Answers:
		return fmt.Sprintf("accept what %s answers to %s", m.calls.Operator(), m.calls.MadeText(m.call))
	case Ends:
		return "end the step, with all slices that have news"
	case Fires:
		return fmt.Sprintf("let time pass to %v", time.Duration(m.deadline))
	case Acts:
		if t := m.client.turn; t.Op != nil {
			return t.Action + " " + t.Op.String()
		}
		return "go on"
	case Isolates, Heals, Halts, Crashes:
		return m.faultText()
	}
	return "settle"
}

// moves returns what can happen next: first what callers do, then cuts, records, calls and timers, each in the order of
// construction.
func (d *Simulation) moves() []Move {
	all := d.made[:0]
	for _, c := range d.clients {
		if c.ready() {
			all = append(all, Move{Name: Name{Kind: Acts, Op: int32(c.number)}, client: c})
		}
	}
	if d.g.Err() == nil && d.g.Begun() {
		for _, s := range d.g.Locations {
			all = d.movesOf(s, all)
		}
		all = d.faultMoves(all)
	}
	d.made = all
	return all
}

// movesOf adds the moves of a location. Each slice is cut on its own, even before one from which it derives; it runs again with
// the results of that one.
func (d *Simulation) movesOf(s *engine.Location, all []Move) []Move {
	at := int32(s.Number)
	if s.Finished || !s.Started {
		return all
	}
	if d.stops(s) {
		return d.answersOf(s, d.callsOf(s, d.resumesOf(s, all)))
	}
	if d.level == Engine {
		return d.stepsOf(s, all)
	}
	for i, r := range s.Regions {
		if r.News {
			all = append(all, Move{Name: Name{Cuts, at, int32(i), 0}, loc: s, region: r})
		}
	}
	for _, in := range s.Inputs {
		if in == nil || in.Waiting() == 0 {
			continue
		}
		for _, h := range in.Heads() {
			all = append(all, Move{Name: Name{Takes, at, in.Base().Op.Index, h.ID}, loc: s, in: in, head: h.At})
		}
	}
	return d.timersOf(s, d.callsOf(s, d.resumesOf(s, all)))
}

// callsOf adds the calls of a location that can be made.
func (d *Simulation) callsOf(s *engine.Location, all []Move) []Move {
	for _, calls := range d.calling[s.Number] {
		for i := range calls.Asked() {
			all = append(all, Move{Name: Name{Calls, int32(s.Number), calls.Operator().Index, calls.CallID(i)}, loc: s, calls: calls, call: i})
		}
	}
	return all
}

// timersOf adds the timers of a location that can fire: for each of its clocks, those of the earliest deadline. They fire in the
// order of production unless the chooser decides otherwise.
func (d *Simulation) timersOf(s *engine.Location, all []Move) []Move {
	if len(s.Timers) == 0 || s.Stopping {
		return all
	}
	at := &d.time.at[s.Number]
	if !at.several {
		if deadline, ok := s.Deadline(); ok {
			all = append(all, Move{Name: Name{Fires, int32(s.Number), 0, 0}, loc: s, clock: d.clockOf(s, s.Times()), deadline: deadline})
		}
		return all
	}
	n := len(all)
	s.Deadlines(func(_ int, of engine.Object, deadline int64) {
		c := d.clockOf(s, of)
		i := slices.IndexFunc(all[n:], func(m Move) bool { return m.clock == c })
		if i < 0 {
			all = append(all, Move{Name: Name{Fires, int32(s.Number), c.name.Op, c.name.Key}, loc: s, clock: c, deadline: deadline})
		} else if m := &all[n+i]; deadline < m.deadline {
			m.deadline = deadline
		}
	})
	slices.SortStableFunc(all[n:], func(a, b Move) int { return cmp.Compare(a.deadline, b.deadline) })
	return all
}

// do makes a move and reports its effect to the listener.
func (d *Simulation) do(m *Move) {
	mover, hand := d.mover, d.moverClock
	d.mover, d.moverClock = moverOf(m), nil
	defer func() { d.mover, d.moverClock = mover, hand }()
	d.footprint.begin(m.Name)
	if m.Kind != Acts {
		d.g.Note(m.String)
	}
	switch m.Kind {
	case Acts:
		d.footprint.effect.Waited = m.client.turn.Ready != nil && !m.quiet
		d.act(m)
	case Cuts:
		d.footprint.touch(m.region.Object(), engine.Writes)
		d.Perform(m.loc, &engine.Plan{Cut: engine.Cut{Some: []*engine.Region{m.region}}})
	case Takes:
		if d.level == Engine {
			d.takeFirst(m)
		} else {
			d.take(m)
		}
	case Calls, Resumes:
		if !d.callsShareNothing {
			d.footprint.touch(engine.World, engine.Writes)
		}
		if m.Kind == Calls {
			d.call(m)
		} else {
			d.proceed(m.suspended)
		}
	case Answers:
		m.calls.Answer(m.call)
	case Fires:
		if d.level == Engine {
			d.fireFirst(m)
		} else {
			d.fire(m.loc, m.clock, m.deadline)
		}
	case Isolates, Heals, Halts, Crashes:
		d.fail(m)
	case Ends:
		d.endStep(m.loc)
	case Settle:
		d.footprint.effect.All = true
	}
	switch {
	case m.Kind == Cuts, m.Kind == Takes, m.Kind == Fires, m.Kind == Ends:
		d.held(m.loc)
	}
	if m.loc != nil {
		d.uses(m.loc)
		d.stepped(m.loc)
	}
	if e, outer := d.footprint.end(); outer {
		if m.Kind == Takes {
			d.mingles(m, &e)
		}
		if m.loc != nil {
			d.shares(m.loc, &e)
		}
		if d.listener != nil {
			d.listener.Made(e)
		}
	}
}

// take takes a record and, where that makes a difference, possibly others of its input in the same step.
func (d *Simulation) take(m *Move) {
	if end, ok := m.in.(*engine.Ending); ok {
		d.footprint.touch(m.loc.Times(), engine.Writes)
		d.footprint.touch(m.loc.Marks(), engine.Writes)
		for _, in := range end.Before() {
			d.footprint.effect.Behind = append(d.footprint.effect.Behind, in.Base().Op.Object(0))
		}
	}
	if !d.takeAt(m) {
		return
	}
	n := 1 + d.more(m)
	d.Perform(m.loc, &engine.Plan{Take: []engine.Take{{Op: m.in.Base().Op.Index, N: n}}, Cut: engine.CutNone})
}

// takeAt takes the record of a move from its input, and reports whether the step gets it: a message may be lost or delayed.
func (d *Simulation) takeAt(m *Move) (taken bool) {
	lane := m.In().Lane(m.ID)
	d.progresses(m.in.Base())
	what := d.fate(m)
	again := what == repeated || what == arrived && d.takeAgain(m.in.Base())
	d.footprint.touch(lane, engine.Takes)
	d.footprint.effect.Took, d.footprint.effect.Again = append(d.footprint.effect.Took, lane), again
	d.keeps(m)
	m.loc.Mu.Lock()
	defer m.loc.Mu.Unlock()
	switch {
	case m.delayed != nil:
		d.arrive(m.delayed, what)
	case what == delayed:
		d.delay(m)
	default:
		if take := m.in.Lift(m.head, again); what != lost {
			take()
		}
	}
	if !again {
		d.freesSpace(m.loc)
		m.loc.Queued--
	}
	return what != lost && what != delayed
}

// stepped counts a step, and fails a flow that does not come to rest.
func (d *Simulation) stepped(s *engine.Location) {
	if d.steps++; d.steps <= maxSteps {
		return
	}
	op := s.Ops[s.At] // one that ran last
	d.g.Fail(fmt.Errorf("dataflow: %s is not quiet after %d steps: it goes round in %s (%s)", s.Name, maxSteps, op.Name, op.Pos))
}
