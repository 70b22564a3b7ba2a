package sim

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// A search goes through all schedules, depth first. Of moves that touch nothing in common it tries
// one order only. When an execution is over, it looks for pairs of moves whose other order could
// be seen, and notes where that order begins (dynamic partial order reduction with source sets,
// Abdulla, Aronis, Jonsson and Sagonas, POPL 2014). Moves that were tried at an earlier place
// sleep, there and behind it, until something that they depend on has happened (sleep sets,
// Godefroid 1996). The method assumes that no move disables another one; here some do, and what
// is disabled is tried before what disables it.
type search struct {
	whole    bool // nothing is reduced
	read     map[engine.Object]bool
	stack    []*place
	unsteady string

	// of the execution under way
	at      int // places that it has passed
	kept    int // of these, those that were on the stack before
	here    int // where the move being made was chosen, or -1
	asleep  []asleep
	events  []event
	blocked bool // nothing is left but what sleeps
	again   bool // the search has to begin anew
}

// A place is where something is chosen: a move, or something else within a move.
type place struct {
	moves  []simulate.Name // those that are possible; nil if it is no move that is chosen
	among  int
	chosen int

	// where a move is chosen
	asleep  []asleep
	back    []bool // moves that have to be tried
	tried   []bool
	effects []*simulate.Effect // of those that were tried
}

// asleep is a move that was tried before, and what it did.
type asleep struct {
	name   simulate.Name
	effect *simulate.Effect
}

func newSearch(whole bool) *search { return &search{whole: whole, here: -1} }

// choose implements chooser, for what is chosen within a move: all of it is tried.
func (s *search) choose(_, n int) int {
	if s.at == len(s.stack) {
		s.stack = append(s.stack, &place{among: n})
	}
	p := s.stack[s.at]
	s.at++
	if p.among != n || p.moves != nil {
		s.differs(fmt.Sprintf("choice %d was among %d and is among %d", s.at, p.among, n))
	}
	return min(p.chosen, n-1)
}

// move chooses the move that is made next. It returns -1 if all of them sleep.
func (s *search) move(all []simulate.Move) int {
	if s.at < len(s.stack) {
		p := s.stack[s.at]
		s.at++
		s.here = s.at - 1
		if !slices.EqualFunc(p.moves, all, func(n simulate.Name, m simulate.Move) bool { return n == m.Name }) {
			s.differs(fmt.Sprintf("choice %d was among %d and is among %d other ones", s.at, len(p.moves), len(all)))
		}
		return min(p.chosen, len(all)-1)
	}
	p := &place{among: len(all), moves: make([]simulate.Name, len(all)), asleep: s.asleep}
	for i := range all {
		p.moves[i] = all[i].Name
	}
	p.back, p.tried, p.effects = make([]bool, len(all)), make([]bool, len(all)), make([]*simulate.Effect, len(all))
	p.chosen = slices.IndexFunc(p.moves, func(n simulate.Name) bool { return !p.sleeps(n) })
	if p.chosen < 0 {
		s.blocked = true
		return -1
	}
	p.back[p.chosen] = true
	for i := range p.back {
		p.back[i] = p.back[i] || s.whole
	}
	s.stack = append(s.stack, p)
	s.here = s.at
	s.at++
	return p.chosen
}

func (s *search) differs(how string) {
	if s.unsteady == "" {
		s.unsteady = how
	}
}

// sleeps reports whether a move is asleep at p.
func (p *place) sleeps(n simulate.Name) bool {
	return slices.ContainsFunc(p.asleep, func(a asleep) bool { return a.name == n })
}

// made notes what a move did.
func (s *search) made(e simulate.Effect) {
	at := s.here
	s.here = -1
	var p *place
	if at >= 0 {
		p = s.stack[at]
		if p.effects[p.chosen] == nil {
			p.effects[p.chosen] = &e
		} else {
			p.effects[p.chosen].Join(&e)
		}
	}
	s.events = append(s.events, event{Effect: e, place: at})
	if s.whole || p != nil && at < s.kept-1 {
		return
	}
	if p != nil {
		s.asleep = slices.Clone(p.asleep)
		for i, tried := range p.tried {
			if tried && p.effects[i] != nil && i != p.chosen {
				s.asleep = append(s.asleep, asleep{p.moves[i], p.effects[i]})
			}
		}
	}
	s.asleep = slices.DeleteFunc(slices.Clone(s.asleep), func(a asleep) bool { return a.name == e.Name || a.effect.Conflicts(&e) })
}

// ended notes what there is to try when an execution is over.
func (s *search) ended(missed map[engine.Object]bool) {
	if len(missed) > 0 {
		read := make(map[engine.Object]bool)
		for o := range s.read {
			read[o] = true
		}
		for o := range missed {
			read[o] = true
		}
		s.read, s.again = read, true
	}
	if s.whole || s.again || s.unsteady != "" {
		return
	}
	s.disabled()
	s.races()
}

// disabled has moves be tried that were possible until another one was made.
func (s *search) disabled() {
	last := -1
	forced := false
	see := func(next []simulate.Name) {
		p := s.stack[last]
		if p.among == 1 {
			return
		}
		still := make(map[simulate.Name]bool, len(next))
		for _, n := range next {
			still[n] = true
		}
		for i, n := range p.moves {
			if i != p.chosen && !still[n] {
				p.back[i] = true
			}
		}
	}
	for _, e := range s.events {
		if e.place < 0 {
			forced = true
			continue
		}
		if last >= max(s.kept-1, 0) {
			if forced {
				see(nil)
			} else {
				see(s.stack[e.place].moves)
			}
		}
		last, forced = e.place, false
	}
	if last >= 0 && (forced || !s.blocked) {
		see(nil)
	}
}

// next moves on to the next execution, if there is one.
func (s *search) next() bool {
	s.at, s.here, s.asleep, s.events, s.blocked = 0, -1, nil, nil, false
	if s.again {
		s.again, s.stack, s.kept = false, nil, 0
		return true
	}
	for len(s.stack) > 0 {
		p := s.stack[len(s.stack)-1]
		if p.moves == nil {
			if p.chosen++; p.chosen < p.among {
				s.kept = len(s.stack)
				return true
			}
		} else {
			p.tried[p.chosen] = true
			for i, back := range p.back {
				if back && !p.tried[i] && !p.sleeps(p.moves[i]) {
					p.chosen = i
					s.kept = len(s.stack)
					return true
				}
			}
		}
		s.stack = s.stack[:len(s.stack)-1]
	}
	return false
}

// compare notes whether a schedule came out differently when it was run again.
func (s *search) compare(x subject, run execution) {
	if s.unsteady != "" || run.blocked {
		return
	}
	c, err := scriptOf(run.trace)
	if err != nil {
		s.unsteady = err.Error()
		return
	}
	if again := x.execute(c, nil); run.shown != again.shown || run.failed != again.failed || run.choices != again.choices {
		s.unsteady = fmt.Sprintf("a schedule of %d choices came out differently when it was run again", run.choices)
	}
}
