// Package simulate runs a graph without goroutines and without a clock. A [Simulation] makes
// one elementary move at a time, as its [Chooser] says, so that one goroutine can go through
// every schedule there is. A [Replay] makes the steps of a recording again. Start reading at
// [Simulation].
package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/token"
)

// A Chooser answers the questions of a simulation: which input next, how far time passes,
// whether to cut a slice now. Nothing else in it may depend on time, map order, goroutines
// or randomness.
type Chooser interface {
	// Choose returns a number in [0, n). It is asked only when n > 1.
	Choose(n int) int
}

// ErrQuiet is the error of a call that waits for something at a simulated graph that can
// make no further step.
var ErrQuiet = errors.New("dataflow: everything is quiet: what is waited for will never come")

// A Simulation runs a graph without goroutines and clock. Whoever waits for something
// makes steps, and the plan of each is one elementary move that the chooser chose: one
// record of one lane, the timers of one deadline, or some slices. So one goroutine can go
// through every schedule there is.
type Simulation struct {
	g        *engine.Graph
	choose   Chooser
	guide    Guide // choose, if it is one
	whole    bool  // explores also interleavings that nobody can tell apart
	schedule *schedule
	alarms   [][]alarm // by location: the timers that were set
	steps    int       // since something was sent
	sent     int       // records accepted
	shown    int       // outputs that were given something; see schedule.go
	virtual  int64     // the clock, in nanoseconds
	repeats  repeats   // of records that were taken
}

// maxSteps bounds the steps of a simulation between two sends, so that a flow that
// feeds itself for ever ends with an error.
const maxSteps = 100_000

// idleFirings is how often an interval of a simulation fires without anything having come
// in: it has no end, and a schedule needs one.
const idleFirings = 3

// Drive makes an empty graph a simulated one. If whole, also schedules that nobody can
// tell apart are told apart.
func Drive(g *engine.Graph, choose Chooser, watch engine.Watcher, whole bool) *Simulation {
	d := &Simulation{g: g, choose: choose, whole: whole}
	d.guide, _ = choose.(Guide)
	g.Driver, g.Settings.Watch, g.Settings.Steady = d, watch, true
	return d
}

// Prepare implements [engine.Driver].
func (d *Simulation) Prepare(g *engine.Graph) {
	d.alarms = make([][]alarm, len(g.Locations))
	for _, s := range g.Locations {
		s.Alarm = func(after, at int64) { d.alarm(s, after, at) }
		for i := range s.Timers {
			if t, ok := s.Timers[i].TimerQueue.(engine.EndlessTimer); ok {
				t.Tire(idleFirings, func() int { return d.sent })
			}
		}
		divide(s, d.whole)
	}
	if len(g.Edges.All) > 0 {
		d.schedule = chart(g)
	}
	d.repeats.find(g)
}

// Start makes the first step, with a clock that begins in 1970. The one who makes steps has the
// token for ever.
func (d *Simulation) Start(s *engine.Location) {
	d.Perform(s, &engine.Plan{Start: true, Cut: engine.CutNone})
}

// Now implements [engine.Driver].
func (d *Simulation) Now(*engine.Location) int64 { return max(d.virtual, 1) }

// Perform implements [engine.Driver].
func (d *Simulation) Perform(s *engine.Location, p *engine.Plan) (ok bool) {
	if ok = s.Step(p); !ok {
		return false
	}
	d.shown += len(s.Ports)
	for _, x := range s.Later {
		if x.Exchange() == nil {
			d.shown++
		}
	}
	s.Publish()
	return true
}

// Settle implements [engine.Driver].
func (d *Simulation) Settle(s *engine.Location, _ int) bool {
	s.Mu.Unlock()
	return true
}

// HandOver implements [engine.Driver].
func (d *Simulation) HandOver(s *engine.Location) { s.Mu.Unlock() }

// Admit implements [engine.Driver].
func (d *Simulation) Admit(ctx context.Context, in *engine.InputBase) (engine.Admission, error) {
	if err := in.Refuse(); err != nil {
		return engine.Refused, err
	}
	d.sent, d.steps = d.sent+1, 0
	return in.Room(ctx)
}

// Wait makes a step for somebody who waits.
func (d *Simulation) Wait(context.Context, *engine.Location, *token.Waiter) error {
	if d.Step() {
		return nil
	}
	if err := d.g.Err(); err != nil {
		return err
	}
	return ErrQuiet
}

// Deliver makes calls at once, one after the other. When an answer is taken is the
// chooser's decision.
func (d *Simulation) Deliver(x engine.Delivery) {
	if calls, ok := x.(engine.Calling); ok {
		calls.CallAll()
		return
	}
	x.Deliver()
}

// Arrived implements [engine.Driver].
func (d *Simulation) Arrived(l *engine.Edge) {
	l.Dst.Find().Last = -1 // it may have come before what was taken last
	l.To.Mu.Unlock()
}

// Bounded implements [engine.Driver].
func (d *Simulation) Bounded() bool { return false }

// Retire implements [engine.Driver].
func (d *Simulation) Retire(*engine.Location) {}

// Arm implements [engine.Driver].
func (d *Simulation) Arm(*engine.Location) {}

// Ended makes steps until the graph has ended. It returns ErrQuiet if it cannot end because
// an input is open.
func (d *Simulation) Ended(context.Context, *engine.Graph) error { return runToEnd(d.g, d.Step) }

// runToEnd makes steps until g has ended.
func runToEnd(g *engine.Graph, step func() bool) error {
	for {
		select {
		case <-g.Done():
			return g.Err()
		default:
		}
		if !step() && g.Err() == nil {
			select {
			case <-g.Done():
				return g.Err()
			default:
				return ErrQuiet
			}
		}
	}
}

// Quiesce makes steps until there is none left to make.
func (d *Simulation) Quiesce() error {
	for d.Step() {
	}
	return d.g.Err()
}

// Ask implements [engine.Driver].
func (d *Simulation) Ask(s *engine.Location) <-chan struct{} { return s.AskBetweenSteps() }

// Step makes one step and reports whether there was one to make.
func (d *Simulation) Step() bool {
	g := d.g
	if g.Err() != nil {
		return false
	}
	if d.schedule != nil {
		if d.stepLinked() {
			return true
		}
	} else if d.stepAny() {
		return true
	}
	return settleAny(g)
}

// settleAny finishes a location that can make no further step, or has it accept an ending, and
// reports whether there was one.
func settleAny(g *engine.Graph) bool {
	for _, s := range g.Locations {
		s.Mu.Lock()
		was, queued := s.Finished, s.Queued
		s.Quiet()
		is, more := s.Finished, s.Queued > queued
		s.Mu.Unlock()
		if is && !was || more {
			return true
		}
	}
	return false
}

// stepAny makes a step of a graph whose locations have nothing to do with each other.
func (d *Simulation) stepAny() bool {
	for _, s := range d.g.Locations {
		for _, c := range s.Components {
			if d.stepComponent(s, c) {
				d.stepped(s)
				return true
			}
		}
	}
	return false
}

// stepped counts a step and ends a flow that does not come to rest.
func (d *Simulation) stepped(s *engine.Location) {
	if d.steps++; d.steps <= maxSteps {
		return
	}
	op := s.Ops[s.At] // one that ran last
	d.g.Fail(fmt.Errorf("dataflow: %s is not quiet after %d steps: it goes round in %s (%s)", s.Name, maxSteps, op.Name, op.Pos))
}

// divide settles which components there are, each with its slices in topological order.
func divide(s *engine.Location, whole bool) {
	var parts []*engine.Component
	for _, p := range s.Components {
		if whole {
			s.Components[0].Join(p)
			s.Components[0].Find().Ordered = true
		}
	}
	for _, p := range s.Components {
		if p.Into != nil {
			continue
		}
		p.Regions = p.Regions[:0]
		for _, r := range s.Regions {
			if r.Component.Find() == p {
				p.Regions = append(p.Regions, r)
			}
		}
		p.Asked = false // a slice may have news from the start
		parts = append(parts, p)
	}
	s.Components = parts
}

// stepComponent makes one step in a component: it cuts slices, or takes one record.
func (d *Simulation) stepComponent(s *engine.Location, p *engine.Component) bool {
	lanes := d.lanes(s, p)
	if d.cutComponent(s, p, lanes) {
		return true
	}
	if len(lanes) == 0 {
		return false
	}
	if !p.Ordered {
		lanes = inOrder(lanes, p.Last)
	}
	next := d.next(lanes)
	p.Last, p.Asked = next.at, false
	if next.in == nil {
		d.virtual = max(d.virtual, next.deadline)
		d.g.Note(func() string { return fmt.Sprintf("let time pass to %v", time.Duration(d.virtual)) })
		d.Perform(s, &engine.Plan{Now: next.deadline, Fire: true, Cut: engine.CutNone})
		return true
	}
	if p.Clock {
		d.pass(s)
	}
	op := next.in.Base().Op
	d.g.Note(func() string { return fmt.Sprintf("take %s from %s", next.in.Say(next.head), op) })
	again := d.takeAgain(next.in.Base(), p)
	s.Mu.Lock()
	next.in.TakeAt(next.head, again)
	if !again {
		s.Queued--
	}
	s.Mu.Unlock()
	d.Perform(s, &engine.Plan{Take: []engine.Take{{Op: op.Index, N: 1}}, Cut: engine.CutNone})
	return true
}

// An alarm is a timer that was set: when for, and with what duration.
type alarm struct{ after, at int64 }

// alarm notes a timer.
func (d *Simulation) alarm(s *engine.Location, after, at int64) {
	if all := d.alarms[s.Number]; !slices.Contains(all, alarm{after, at}) {
		d.alarms[s.Number] = append(all, alarm{after, at})
	}
}

// pass lets time pass before a record of a component with timers: a little, so that no two
// records come at one time, or as much as makes a difference, which is what brings a
// timer that the record sets behind one that is set already. The durations that it
// reckons with are those of timers that were set before.
func (d *Simulation) pass(s *engine.Location) {
	d.virtual++
	first, ok := s.Deadline()
	if !ok {
		return
	}
	alarms := slices.DeleteFunc(d.alarms[s.Number], func(a alarm) bool { return a.at+a.after < d.virtual })
	d.alarms[s.Number] = alarms
	var times []int64
	for _, pending := range alarms {
		for _, other := range alarms {
			if t := pending.at - other.after + 1; pending.at >= first && t > d.virtual && t < first {
				times = append(times, t)
			}
		}
	}
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	times = slices.Compact(times)
	if i := d.choose.Choose(len(times) + 1); i > 0 {
		d.virtual = times[i-1]
		d.g.Note(func() string { return fmt.Sprintf("let time pass to %v", time.Duration(d.virtual)) })
	}
}

// cutComponent runs slices that have news: each when the chooser says so, and all when
// nothing else can happen.
func (d *Simulation) cutComponent(s *engine.Location, p *engine.Component, lanes []lane) bool {
	may := len(lanes) > 0 && (p.Ordered || lanes[len(lanes)-1].at >= p.Last)
	if may && p.Asked {
		return false
	}
	p.Asked = true
	cut := []*engine.Region{}
	for _, r := range p.Regions {
		if !r.News && !slices.ContainsFunc(cut, r.Follows) || may && d.choose.Choose(2) == 1 {
			continue
		}
		cut = append(cut, r)
	}
	if !slices.ContainsFunc(cut, func(r *engine.Region) bool { return r.News }) {
		return false
	}
	for _, r := range cut {
		d.g.Note(func() string { return "cut " + r.String() + r.Whys() })
	}
	d.Perform(s, &engine.Plan{Cut: engine.Cut{Some: cut}})
	p.Last = -1
	return true
}
