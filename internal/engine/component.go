package engine

import "slices"

// A Component is what hangs together at a location: inputs, slices and timers that cannot be
// told apart from elsewhere. Parts that have nothing to do with each other are run
// one after the other, since nobody could see another interleaving.
type Component struct {
	Into *Component // the component this one was merged into, or nil

	Inputs  []Input
	Regions []*Region
	Clock   bool // has timers
	// Ordered says that somebody observes the order in which records of different
	// inputs or keys come, beyond what slices see.
	Ordered bool

	// of a simulation
	Asked bool // whether each slice with news was asked since the last record
	Last  int  // lane of the last record since the last cut, or -1
}

// Find returns the component that p is part of.
func (p *Component) Find() *Component {
	for p.Into != nil {
		p = p.Into
	}
	return p
}

// Join makes p and q one.
func (p *Component) Join(q *Component) {
	if p, q = p.Find(), q.Find(); p == q {
		return
	}
	q.Into = p
	p.Inputs = append(p.Inputs, q.Inputs...)
	p.Regions = append(p.Regions, q.Regions...)
	p.Clock = p.Clock || q.Clock
	p.Ordered = p.Ordered || q.Ordered
}

// Clocked makes a component one with all others that have timers: they share the clock.
func (s *Location) Clocked(p *Component) {
	p = p.Find()
	p.Clock, p.Ordered = true, true
	for _, q := range s.Components {
		if q.Into == nil && q.Clock {
			p.Join(q)
		}
	}
}

// newComponent adds a component to the location.
func (s *Location) newComponent() *Component {
	p := &Component{Last: -1, Asked: true}
	s.Components = append(s.Components, p)
	return p
}

// SeesRepeats says that somebody can tell, behind h, that a record came more than once.
func (h *Head) SeesRepeats() {
	g := h.Loc.Graph
	g.RepeatsSeen = append(g.RepeatsSeen, h.Component)
}

// A Loop is a cycle while a flow is built: what it is, and which cycles lie between
// it and what was fed back to it.
type Loop struct {
	Name string
	From []*Loop // cycles that the completing stream follows without a record in between
	Done bool
}

// Reaches returns the loops on a way from l back to target, or nil. A loop that was
// visited is not visited again, since loops that a record separates may be circular.
func (l *Loop) Reaches(target *Loop, path []*Loop) []*Loop {
	if slices.Contains(path, l) {
		return nil
	}
	path = append(path, l)
	if l == target {
		return path
	}
	for _, f := range l.From {
		if p := f.Reaches(target, path); p != nil {
			return p
		}
	}
	return nil
}

// union returns the loops in a or b, and leaves both as they are.
func union(a, b []*Loop) []*Loop {
	for _, l := range b {
		if !slices.Contains(a, l) {
			a = append(slices.Clip(a), l)
		}
	}
	return a
}
