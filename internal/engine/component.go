package engine

// A part is what hangs together at a site: inputs, slices and timers that cannot be
// told apart from elsewhere. Parts that have nothing to do with each other are run
// one after the other, since nobody could see another interleaving.
type part struct {
	into *part // the part this one was merged into, or nil

	inlets  []input
	regions []*Region
	clock   bool // has timers
	// ordered says that somebody observes the order in which records of different
	// inputs or keys come, beyond what slices see.
	ordered bool

	// of a simulation
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

// newPart adds a part to the site.
func (s *Site) newPart() *part {
	p := &part{last: -1, asked: true}
	s.parts = append(s.parts, p)
	return p
}
