package sim

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/engine/simulate"
)

// A descent is one execution of a search. It follows the branches to one that was not explored,
// takes that one, and from there makes new choices. One worker uses it, and what it adds to the
// tree is private to it until it is published.
type descent struct {
	whole bool
	rerun bool // run it again, to see whether the result is the same
	first *branch
	task  *branch
	known simulate.Known

	path       []*branch
	existing   int      // the number of branches of path that existed before
	lastAsleep []asleep // what sleeps where the last move of these was chosen
	before     []event  // events that existed before

	at       int // the number of branches that the execution has taken
	here     int // where the move being made was chosen, or -1
	asleep   []asleep
	events   []event    // the events after those
	found    []addition // by races
	missed   simulate.Known
	shared   simulate.Groups // what shares one clock
	blocked  bool            // only sleeping moves are left
	left     []simulate.Name // the sleeping moves in that case
	unsteady string
}

// descend returns the execution that explores b.
func (s *search) descend(b *branch) *descent {
	d := &descent{
		whole: s.options.whole, rerun: s.started&(s.started-1) == 0, // every now and then
		first: s.first, task: b, known: s.known, path: b.path(), here: -1,
	}
	d.existing = len(d.path)
	if d.existing == 0 {
		return d
	}
	d.before = append(d.before, s.first.events...)
	for _, c := range d.path[:d.existing-1] {
		d.before = append(d.before, c.events...)
	}
	move := d.existing - 1
	for move >= 0 && d.path[move].at.moves == nil {
		move--
	}
	if move < 0 {
		return d
	}
	p := d.path[move].at
	d.lastAsleep = slices.Clone(p.asleep)
	for _, c := range p.branches {
		if c == d.path[move] {
			break
		}
		if c.effect != nil {
			d.lastAsleep = append(d.lastAsleep, asleep{p.moves[c.index], c.effect})
		}
	}
	return d
}

// choose implements chooser for choices within a move: all possibilities are tried.
func (d *descent) choose(_, n int) int {
	return d.chooseOf(n, func(int) bool { return true })
}

// chooseOf is choose, restricted to what is worth trying.
func (d *descent) chooseOf(n int, worth func(i int) bool) int {
	if d.at == len(d.path) {
		p := d.place(n)
		for i := range n {
			if d.whole || worth(i) {
				p.branches = append(p.branches, &branch{at: p, index: i})
			}
		}
		d.path = append(d.path, p.branches[0])
	}
	b := d.path[d.at]
	d.at++
	if b.at.among != n || b.at.moves != nil || b.at.timed {
		d.differs(fmt.Sprintf("choice %d was among %d and is among %d", d.at, b.at.among, n))
	}
	return min(b.index, n-1)
}

// place returns a new place at the end of the path.
func (d *descent) place(among int) *place {
	p := &place{depth: len(d.path), among: among, from: d.first}
	if p.depth > 0 {
		p.from = d.path[p.depth-1]
	}
	return p
}

// move chooses the next move. It returns -1 if all moves sleep.
func (d *descent) move(all []simulate.Move) int {
	if d.at == len(d.path) {
		p := d.place(len(all))
		p.moves, p.asleep, p.back = make([]simulate.Name, len(all)), d.asleep, make([]bool, len(all))
		for i := range all {
			p.moves[i] = all[i].Name
		}
		for i := range all {
			if len(p.branches) == 0 || d.whole {
				p.add(i)
			}
		}
		if len(p.branches) == 0 {
			d.blocked, d.left = true, p.moves
			return -1
		}
		d.path = append(d.path, p.branches[0])
		d.here = d.at
		d.at++
		return p.branches[0].index
	}
	b := d.path[d.at]
	d.here = d.at
	d.at++
	if !slices.EqualFunc(b.at.moves, all, func(n simulate.Name, m simulate.Move) bool { return n == m.Name }) {
		d.differs(fmt.Sprintf("choice %d was among %d and is among %d other ones", d.at, len(b.at.moves), len(all)))
	}
	return min(b.index, len(all)-1)
}

func (d *descent) differs(how string) {
	if d.unsteady == "" {
		d.unsteady = how
	}
}

// time chooses what the clock shows: the usual time first, and then the times that were found
// to make a difference.
func (d *descent) time(usual int64) int64 {
	if d.at == len(d.path) {
		p := d.place(1)
		p.timed, p.usual = true, usual
		p.branches = []*branch{{at: p, time: usual}}
		d.path = append(d.path, p.branches[0])
	}
	b := d.path[d.at]
	d.at++
	if !b.at.timed || b.at.usual != usual {
		d.differs(fmt.Sprintf("choice %d was a time beside %d and is one beside %d", d.at, b.at.usual, usual))
	}
	return b.time
}

// made notes what a move did.
func (d *descent) made(e simulate.Effect) {
	at := d.here
	d.here = -1
	if d.at < d.existing {
		return // an earlier execution made it
	}
	d.events = append(d.events, event{Effect: e, place: at, last: d.at - 1})
	if d.whole {
		return
	}
	switch {
	case at < 0:
	case at < d.existing:
		d.asleep = d.lastAsleep
	default:
		d.asleep = d.path[at].at.asleep
	}
	d.asleep = slices.DeleteFunc(slices.Clone(d.asleep), func(a asleep) bool { return a.name == e.Name || a.effect.Conflicts(&e) })
}

// conclusion returns why the exploration ends or begins anew, or nil if it does neither.
func (d *descent) conclusion(run execution) *conclusion {
	if run.failed && !d.known.Apart { // whatever else it has shown would be tried after it
		return &conclusion{failed: &run}
	}
	d.found = d.races()
	switch known := d.clocks(); {
	case d.known.Apart && !known.None():
		d.missed.Add(known)
		return &conclusion{missed: d.missed, none: true}
	case run.failed:
		return &conclusion{failed: &run}
	case d.unsteady != "":
		return &conclusion{unsteady: d.unsteady, trace: run.trace}
	case !d.missed.None():
		return &conclusion{missed: d.missed}
	case !known.None():
		return &conclusion{missed: known}
	}
	return nil
}

// ended returns what is left to try after an execution, deepest places first.
func (d *descent) ended() []addition {
	var found []addition
	if !d.whole {
		found = append(d.disabled(), d.found...)
	}
	found = append(found, d.pass()...)
	slices.SortStableFunc(found, func(a, b addition) int { return b.depth - a.depth })
	return found
}

// disabled schedules moves that were possible until another move was made.
func (d *descent) disabled() (found []addition) {
	last := -1
	forced := false
	see := func(next []simulate.Name) {
		p := d.path[last].at
		if p.among == 1 {
			return
		}
		still := make(map[simulate.Name]bool, len(next))
		for _, n := range next {
			still[n] = true
		}
		for i, n := range p.moves {
			if i != d.path[last].index && !still[n] {
				found = append(found, addition{depth: p.depth, heads: []simulate.Name{n}})
			}
		}
	}
	for _, e := range d.events {
		if e.place < 0 {
			forced = true
			continue
		}
		if last >= 0 {
			if forced {
				see(nil)
			} else {
				see(d.path[e.place].at.moves)
			}
		}
		last, forced = e.place, false
	}
	if last >= 0 {
		if forced {
			d.left = nil
		}
		see(d.left)
	}
	return found
}

// publish adds what the execution has found to the tree.
func (d *descent) publish(found []addition) {
	end := d.task
	if len(d.path) > d.existing {
		end = d.path[len(d.path)-1]
	}
	for at := d.existing; at < len(d.path); at++ {
		b := d.path[at]
		b.state, b.at.from.behind = explored, b.at
	}
	d.task.state = explored
	for i := range d.events {
		e := &d.events[i]
		last := d.first
		if e.last >= 0 {
			last = d.path[e.last]
		}
		last.events = append(last.events, *e)
		if e.place < 0 {
			continue
		}
		b := d.path[e.place]
		b.inner = b.inner || e.last > e.place
		if b.effect == nil {
			effect := e.Effect
			b.effect = &effect
		} else {
			b.effect.Join(&e.Effect)
		}
	}
	end.give(found)
	end.finish()
}
