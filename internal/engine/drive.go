package engine

import (
	"errors"
	"fmt"
	"slices"
)

// A driven graph has a Chooser. It has no goroutine and no clock of its own: whoever
// waits for something steps it, and each step asks the chooser what happens next.
// So one goroutine can go through every schedule there is.

// ErrQuiet is returned to who waits for something at a driven graph in which nothing
// can happen any more.
var ErrQuiet = errors.New("dataflow: everything is quiet: what is waited for will never come")

// maxSteps bounds the steps of a driven graph between two sends, so that a flow that
// feeds itself for ever ends with an error.
const maxSteps = 100_000

func (g *Graph) driven() bool { return g.set.Choose != nil || g.set.Replay != nil }

// Step makes one step of a driven graph and reports whether there was one to make.
func (g *Graph) Step() bool {
	if g.Err() != nil {
		return false
	}
	if g.set.Replay != nil {
		return g.replayStep()
	}
	if len(g.links.all) > 0 {
		if g.stepLinked() {
			return true
		}
	} else if g.stepAny() {
		return true
	}
	for _, s := range g.sites {
		if !s.finished && s.settled() {
			return true
		}
	}
	return false
}

// stepAny makes a step of a graph whose sites have nothing to do with each other.
func (g *Graph) stepAny() bool {
	for _, s := range g.sites {
		for _, c := range s.parts {
			if s.stepPart(c) {
				g.stepped(s)
				return true
			}
		}
	}
	return false
}

// stepped counts a step and ends a flow that does not come to rest.
func (g *Graph) stepped(s *Site) {
	if g.steps++; g.steps <= maxSteps {
		return
	}
	g.Fail(fmt.Errorf("dataflow: %s is not quiet after %d steps: it goes round in %s", s.name, maxSteps, s.busiest()))
}

// settled finishes a driven site in which nothing can happen any more, and reports
// whether it did.
func (s *Site) settled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet()
	return s.finished
}

// Drive steps a driven graph until it has ended. It returns ErrQuiet if it cannot end
// because an input is open.
func (g *Graph) Drive() error {
	for {
		select {
		case <-g.done:
			return g.Err()
		default:
		}
		if !g.Step() && g.Err() == nil {
			select {
			case <-g.done:
				return g.Err()
			default:
				return ErrQuiet
			}
		}
	}
}

// Quiesce steps a driven graph until nothing can happen any more.
func (g *Graph) Quiesce() error {
	for g.Step() {
	}
	return g.Err()
}

// A part is what hangs together at a site: inputs, slices and timers that cannot be
// told apart from elsewhere. Parts that have nothing to do with each other are run
// one after the other, since nobody could see another interleaving.
type part struct {
	into *part // the part this one was merged into, or nil

	inlets  []inlet
	regions []*Region
	clock   bool // has timers
	// ordered says that somebody observes the order in which records of different
	// inputs or keys come, beyond what slices see.
	ordered bool

	asked bool // whether each slice with news was asked since the last record
	last  int  // lane of the last record since the last cut, or -1
}

// find returns the part that p is part of.
func (p *part) find() *part {
	for p.into != nil {
		p = p.into
	}
	return p
}

// join makes p and q one.
func (p *part) join(q *part) {
	if p, q = p.find(), q.find(); p == q {
		return
	}
	q.into = p
	p.inlets = append(p.inlets, q.inlets...)
	p.regions = append(p.regions, q.regions...)
	p.clock = p.clock || q.clock
	p.ordered = p.ordered || q.ordered
}

// clocked makes a part one with all others that have timers: they share the clock.
func (s *Site) clocked(p *part) {
	p = p.find()
	p.clock, p.ordered = true, true
	for _, q := range s.parts {
		if q.into == nil && q.clock {
			p.join(q)
		}
	}
}

// advance makes a step for somebody who waits.
func (g *Graph) advance() error {
	if g.Step() {
		return nil
	}
	if err := g.Err(); err != nil {
		return err
	}
	return ErrQuiet
}

// newPart adds a part to the site.
func (s *Site) newPart() *part {
	p := &part{last: -1, asked: true}
	s.parts = append(s.parts, p)
	return p
}

// divide settles which parts there are, each with its slices in topological order.
func (s *Site) divide() {
	var parts []*part
	for _, p := range s.parts {
		if s.g.set.Whole {
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
func (s *Site) stepPart(p *part) bool {
	lanes := s.lanes(p)
	if s.cutPart(p, lanes) {
		return true
	}
	if len(lanes) == 0 {
		return false
	}
	if !p.ordered {
		lanes = inOrder(lanes, p.last)
	}
	i := 0
	if len(lanes) > 1 {
		i = s.g.set.Choose.Choose(len(lanes))
	}
	p.last, p.asked = lanes[i].at, false
	s.drive(func() {
		if p.clock && lanes[i].record {
			s.pass()
		}
		lanes[i].take()
	})
	return true
}

// An alarm is a timer that was set: when for, and with what duration.
type alarm struct{ after, at int64 }

// alarm notes a timer of a driven site.
func (s *Site) alarm(after, at int64) {
	if i := slices.Index(s.alarms, alarm{after, at}); i < 0 {
		s.alarms = append(s.alarms, alarm{after, at})
	}
}

// pass lets time pass before a record of a part with timers: a little, so that no two
// records come at one time, or as much as makes a difference, which is what brings a
// timer that the record sets behind one that is set already. The durations that it
// reckons with are those of timers that were set before.
func (s *Site) pass() {
	s.g.virtual++
	first, ok := s.deadline()
	if !ok {
		return
	}
	s.alarms = slices.DeleteFunc(s.alarms, func(a alarm) bool { return a.at+a.after < s.g.virtual })
	var times []int64
	for _, pending := range s.alarms {
		for _, other := range s.alarms {
			if t := pending.at - other.after + 1; pending.at >= first && t > s.g.virtual && t < first {
				times = append(times, t)
			}
		}
	}
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	times = slices.Compact(times)
	if i := s.g.set.Choose.Choose(len(times) + 1); i > 0 {
		s.g.virtual = times[i-1]
		s.note(func() string { return fmt.Sprintf("let time pass to %v", duration(s.g.virtual)) })
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
func (s *Site) cutPart(p *part, lanes []lane) bool {
	may := len(lanes) > 0 && (p.ordered || lanes[len(lanes)-1].at >= p.last)
	if may && p.asked {
		return false
	}
	p.asked = true
	ran := false
	s.drive(func() {
		for _, r := range p.regions {
			if !r.news || may && s.g.set.Choose.Choose(2) == 1 {
				continue
			}
			s.note(func() string { return "cut " + r.String() + r.whys() })
			ran = true
			s.observeRun(r)
		}
	})
	if ran {
		p.last = -1
	}
	return ran
}

// drive does something as a step of its own.
func (s *Site) drive(f func()) {
	defer s.guard()
	f()
	s.now = 0
	s.g.shown += len(s.ports)
	for _, out := range s.later {
		s.shows(out)
	}
	s.publish()
	s.completed = true
}

// busiest names the operators that ran last, for the error of a flow without rest.
func (s *Site) busiest() string {
	op := s.ops[s.at]
	return fmt.Sprintf("%s (%s)", op.Name, op.Pos)
}

// A lane is where a record can come from next: an input, a key of a keyed input,
// since keys have no order between them, or the clock.
type lane struct {
	at     int  // position among the lanes of the part
	record bool // of an input, not of the clock
	take   func()
}

// lanes returns the lanes of a part that have a record.
func (s *Site) lanes(p *part) []lane {
	var all []lane
	at := 0
	for _, in := range p.inlets {
		for _, i := range in.heads() {
			all = append(all, lane{at + i.lane, true, func() { in.takeAt(i.at) }})
		}
		at += in.width()
	}
	if p.clock && !s.stopping {
		if deadline, ok := s.deadline(); ok {
			all = append(all, lane{at, false, func() { s.ring(deadline) }})
		}
	}
	return all
}

// ring lets virtual time pass until the earliest deadline and fires what is due then.
func (s *Site) ring(deadline int64) {
	s.g.virtual = max(s.g.virtual, deadline)
	s.note(func() string { return fmt.Sprintf("let time pass to %v", duration(s.g.virtual)) })
	s.fireUntil(deadline)
}

// Driven reports whether the graph has a chooser.
func (g *Graph) Driven() bool { return g.driven() }

// Wait waits until the graph has ended, driving it there if it is driven.
func (g *Graph) Wait() error {
	if g.driven() {
		return g.Drive()
	}
	<-g.done
	return g.Err()
}
