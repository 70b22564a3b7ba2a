package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Chooser answers the questions of a simulation: which input next, how far time passes,
// whether to cut a slice now. Nothing else in it may depend on time, map order, goroutines
// or randomness.
type Chooser interface {
	// Choose returns a number in [0, n). It is asked only when n > 1.
	Choose(n int) int
}

// ErrQuiet is returned to who waits for something at a simulated graph in which nothing
// can happen any more.
var ErrQuiet = errors.New("dataflow: everything is quiet: what is waited for will never come")

// A Simulation runs a graph without goroutines and clock. Whoever waits for something
// makes steps, and the plan of each is one elementary move that the chooser chose: one
// record of one lane, the timers of one deadline, or some slices. So one goroutine can go
// through every schedule there is.
type Simulation struct {
	g       *Graph
	choose  Chooser
	guide   Guide // choose, if it is one
	whole   bool  // explores also interleavings that nobody can tell apart
	course  *course
	alarms  [][]alarm // by site: the timers that were set
	steps   int       // since something was sent
	sent    int       // records accepted
	shown   int       // outputs that were given something; see move_drive.go
	virtual int64     // the clock, in nanoseconds
	repeats repeats   // of records that were taken
}

// maxSteps bounds the steps of a simulation between two sends, so that a flow that
// feeds itself for ever ends with an error.
const maxSteps = 100_000

// idleFirings is how often an interval of a simulation fires without anything having come
// in: it has no end, and a schedule needs one.
const idleFirings = 3

// Simulate makes an empty graph a simulated one. If whole, also schedules that nobody can
// tell apart are told apart.
func (g *Graph) Simulate(choose Chooser, watch Watcher, whole bool) *Simulation {
	d := &Simulation{g: g, choose: choose, whole: whole}
	d.guide, _ = choose.(Guide)
	g.driver, g.set.Watch, g.set.Steady = d, watch, true
	return d
}

func (d *Simulation) prepare(g *Graph) {
	d.alarms = make([][]alarm, len(g.sites))
	for _, s := range g.sites {
		s.alarm = func(after, at int64) { d.alarm(s, after, at) }
		for i := range s.timers {
			if t, ok := s.timers[i].timerQueue.(endlessTimer); ok {
				t.tire(idleFirings, func() int { return d.sent })
			}
		}
		s.divide(d.whole)
	}
	if len(g.links.all) > 0 {
		d.course = g.chart()
	}
	d.repeats.find(g)
}

// start makes the first step. The one who makes steps has the token for ever.
func (d *Simulation) start(s *Site) { d.perform(s, &Plan{Start: true, Cut: CutNone}) }

func (d *Simulation) now(*Site) int64 { return max(d.virtual, 1) }

func (d *Simulation) perform(s *Site, p *Plan) (ok bool) {
	if ok = s.step(p); !ok {
		return false
	}
	d.shown += len(s.ports)
	for _, x := range s.later {
		if x.exchange() == nil {
			d.shown++
		}
	}
	s.publish()
	return true
}

func (d *Simulation) settle(s *Site, _ int) bool {
	s.mu.Unlock()
	return true
}

func (d *Simulation) handOver(s *Site) { s.mu.Unlock() }

func (d *Simulation) admit(ctx context.Context, in *door) (admission, error) {
	if err := in.refuse(); err != nil {
		return refused, err
	}
	d.sent, d.steps = d.sent+1, 0
	return in.room(ctx)
}

// wait makes a step for somebody who waits.
func (d *Simulation) wait(context.Context, *Site, *waiter) error {
	if d.Step() {
		return nil
	}
	if err := d.g.Err(); err != nil {
		return err
	}
	return ErrQuiet
}

// deliver makes calls at once, one after the other. When an answer is taken is the
// chooser's decision.
func (d *Simulation) deliver(x delivery) {
	if calls, ok := x.(calling); ok {
		calls.callAll()
		return
	}
	x.deliver()
}

func (d *Simulation) arrived(l *link) {
	l.dst.find().last = -1 // it may have come before what was taken last
	l.to.mu.Unlock()
}

func (d *Simulation) bounded() bool { return false }

func (d *Simulation) retire(*Site) {}

func (d *Simulation) arm(*Site) {}

// ended makes steps until the graph has ended. It returns ErrQuiet if it cannot end because
// an input is open.
func (d *Simulation) ended(context.Context, *Graph) error { return runToEnd(d.g, d.Step) }

// runToEnd makes steps until g has ended.
func runToEnd(g *Graph, step func() bool) error {
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

// Quiesce makes steps until nothing can happen any more.
func (d *Simulation) Quiesce() error {
	for d.Step() {
	}
	return d.g.Err()
}

func (d *Simulation) ask(s *Site) <-chan struct{} { return s.askBetweenSteps() }

func (d *Simulation) origin(*Site) time.Time { return time.Unix(0, 0) }

// Step makes one step and reports whether there was one to make.
func (d *Simulation) Step() bool {
	g := d.g
	if g.Err() != nil {
		return false
	}
	if d.course != nil {
		if d.stepLinked() {
			return true
		}
	} else if d.stepAny() {
		return true
	}
	return settleAny(g)
}

// settleAny finishes a location in which nothing can happen any more, and reports whether
// there was one.
func settleAny(g *Graph) bool {
	for _, s := range g.sites {
		s.mu.Lock()
		was := s.finished
		s.quiet()
		is := s.finished
		s.mu.Unlock()
		if is && !was {
			return true
		}
	}
	return false
}

// stepAny makes a step of a graph whose sites have nothing to do with each other.
func (d *Simulation) stepAny() bool {
	for _, s := range d.g.sites {
		for _, c := range s.parts {
			if d.stepPart(s, c) {
				d.stepped(s)
				return true
			}
		}
	}
	return false
}

// stepped counts a step and ends a flow that does not come to rest.
func (d *Simulation) stepped(s *Site) {
	if d.steps++; d.steps <= maxSteps {
		return
	}
	op := s.ops[s.at] // one that ran last
	d.g.Fail(fmt.Errorf("dataflow: %s is not quiet after %d steps: it goes round in %s (%s)", s.name, maxSteps, op.Name, op.Pos))
}

// divide settles which parts there are, each with its slices in topological order.
func (s *Site) divide(whole bool) {
	var parts []*part
	for _, p := range s.parts {
		if whole {
			s.parts[0].join(p)
			s.parts[0].find().ordered = true
		}
	}
	for _, p := range s.parts {
		if p.into != nil {
			continue
		}
		p.regions = p.regions[:0]
		for _, r := range s.regions {
			if r.part.find() == p {
				p.regions = append(p.regions, r)
			}
		}
		p.asked = false // a slice may have news from the start
		parts = append(parts, p)
	}
	s.parts = parts
}

// stepPart makes one step in a part: it cuts slices, or takes one record.
func (d *Simulation) stepPart(s *Site, p *part) bool {
	lanes := d.lanes(s, p)
	if d.cutPart(s, p, lanes) {
		return true
	}
	if len(lanes) == 0 {
		return false
	}
	if !p.ordered {
		lanes = inOrder(lanes, p.last)
	}
	next := d.next(lanes)
	p.last, p.asked = next.at, false
	if next.in == nil {
		d.virtual = max(d.virtual, next.deadline)
		d.g.note(func() string { return fmt.Sprintf("let time pass to %v", time.Duration(d.virtual)) })
		d.perform(s, &Plan{Now: next.deadline, Fire: true, Cut: CutNone})
		return true
	}
	if p.clock {
		d.pass(s)
	}
	op := next.in.base().op
	d.g.note(func() string { return fmt.Sprintf("take %s from %s", next.in.say(next.head), op) })
	again := d.takeAgain(next.in.base(), p)
	s.mu.Lock()
	next.in.takeAt(next.head, again)
	if !again {
		s.queued--
	}
	s.mu.Unlock()
	d.perform(s, &Plan{Take: []Take{{Op: op.index, N: 1}}, Cut: CutNone})
	return true
}

// An alarm is a timer that was set: when for, and with what duration.
type alarm struct{ after, at int64 }

// alarm notes a timer.
func (d *Simulation) alarm(s *Site, after, at int64) {
	if all := d.alarms[s.number]; !slices.Contains(all, alarm{after, at}) {
		d.alarms[s.number] = append(all, alarm{after, at})
	}
}

// pass lets time pass before a record of a part with timers: a little, so that no two
// records come at one time, or as much as makes a difference, which is what brings a
// timer that the record sets behind one that is set already. The durations that it
// reckons with are those of timers that were set before.
func (d *Simulation) pass(s *Site) {
	d.virtual++
	first, ok := s.deadline()
	if !ok {
		return
	}
	alarms := slices.DeleteFunc(d.alarms[s.number], func(a alarm) bool { return a.at+a.after < d.virtual })
	d.alarms[s.number] = alarms
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
		d.g.note(func() string { return fmt.Sprintf("let time pass to %v", time.Duration(d.virtual)) })
	}
}

// inOrder returns the lanes from which a record may come next where only cuts are
// observed: between two cuts one order of lanes stands for all.
func inOrder(lanes []lane, last int) []lane {
	for i, l := range lanes {
		if l.at >= last {
			return lanes[i:]
		}
	}
	return lanes
}

// cutPart runs slices that have news: each when the chooser says so, and all when
// nothing else can happen.
func (d *Simulation) cutPart(s *Site, p *part, lanes []lane) bool {
	may := len(lanes) > 0 && (p.ordered || lanes[len(lanes)-1].at >= p.last)
	if may && p.asked {
		return false
	}
	p.asked = true
	cut := []*Region{}
	for _, r := range p.regions {
		if !r.news && !slices.ContainsFunc(cut, r.follows) || may && d.choose.Choose(2) == 1 {
			continue
		}
		cut = append(cut, r)
	}
	if !slices.ContainsFunc(cut, func(r *Region) bool { return r.news }) {
		return false
	}
	for _, r := range cut {
		d.g.note(func() string { return "cut " + r.String() + r.whys() })
	}
	d.perform(s, &Plan{Cut: Cut{cut}})
	p.last = -1
	return true
}

// A lane is where a record can come from next: an input, a key of a keyed input,
// since keys have no order between them, or the clock.
type lane struct {
	at       int   // position among the lanes of the part
	in       input // nil for the clock
	head     int   // index of the record in what in has accepted
	deadline int64 // of the clock
}

// lanes returns the lanes of a part that have a record.
func (d *Simulation) lanes(s *Site, p *part) []lane {
	var all []lane
	at := 0
	for _, in := range p.inlets {
		for _, i := range in.heads() {
			all = append(all, lane{at: at + i.lane, in: in, head: i.at})
		}
		at += in.width()
	}
	if p.clock && !s.stopping {
		if deadline, ok := s.deadline(); ok {
			all = append(all, lane{at: at, deadline: deadline})
		}
	}
	return all
}
