package sim

import (
	"math"
	"math/rand/v2"

	"github.com/millrace/millrace/internal/engine/simulate"
)

// priorities chooses a schedule at random so that each bug that needs few orderings has a known
// chance to be found (probabilistic concurrency testing, Burckhardt, Kothari, Musuvathi and
// Nagarakatti, ASPLOS 2010). Each source of moves, such as a lane or a slice, has a random
// priority, and the move with the highest priority is made. At depth-1 random moments the source
// whose turn it is falls behind all others. So some sources wait for long, which hardly ever
// happens if all moves are equally likely.
//
// Choices within a move are equally likely.
type priorities struct {
	rng      *rand.Rand
	change   map[int]bool // the numbers of the moves before which a priority changes
	priority map[simulate.Name]int64
	lowest   int64
	moves    int // made so far
}

// byPriority returns a chooser for schedules of about the given number of moves.
func byPriority(seed uint64, depth, moves int) *priorities {
	p := &priorities{
		rng:    rand.New(rand.NewPCG(seed, uint64(depth))),
		change: make(map[int]bool), priority: make(map[simulate.Name]int64),
	}
	for range depth - 1 {
		p.change[p.rng.IntN(max(moves, 1))] = true
	}
	return p
}

func (p *priorities) choose(_, n int) int { return p.rng.IntN(n) }

// move implements mover.
func (p *priorities) move(all []simulate.Move) int {
	best := p.best(all)
	if p.change[p.moves] {
		p.lowest--
		p.priority[all[best].Name] = p.lowest
		best = p.best(all)
	}
	p.moves++
	return best
}

// best returns the index of the move with the highest priority. A source without a priority gets a
// random one.
func (p *priorities) best(all []simulate.Move) int {
	best := 0
	for i := range all {
		if _, known := p.priority[all[i].Name]; !known {
			p.priority[all[i].Name] = p.rng.Int64()
		}
		if p.priority[all[i].Name] > p.priority[all[best].Name] {
			best = i
		}
	}
	return best
}

// A bound says what the schedules that were chosen by priorities show about bugs of a depth, which
// is the number of orderings that suffice to show the bug.
type bound struct {
	depth     int
	processes int // the most sources of moves in a run
	moves     int // the most moves in a run
	runs      int // runs for which the bound holds, since moves was known when they were chosen
}

// chance returns a lower bound for the chance that a run finds a bug of the depth, or 0 if nothing
// is known.
func (b bound) chance() float64 {
	if b.processes == 0 {
		return 0
	}
	return 1 / (float64(b.processes) * math.Pow(float64(b.moves), float64(b.depth-1)))
}

// missed returns an upper bound for the chance that all runs have missed a bug of the depth.
func (b bound) missed() float64 { return math.Pow(1-b.chance(), float64(b.runs)) }

// prioritized runs schedules that are chosen by priorities, and ends with the first that fails.
func (x subject) prioritized(runs, depth int, seed uint64) (found exploration, b bound) {
	b.depth = depth
	distinct := make(map[uint64]bool)
	for found.executions < runs && found.failed == nil && x.ctx.Err() == nil {
		c := byPriority(seed+uint64(found.executions), depth, b.moves)
		run := x.execute(c, nil)
		x.tally.add(run)
		found.executions++
		b.processes = max(b.processes, len(c.priority))
		if b.runs++; c.moves > b.moves {
			b.moves, b.runs = c.moves, 0
		}
		if run.failed {
			found.failed = &run
			continue
		}
		found.outs.add(run)
		if !run.discarded {
			distinct[run.shown] = true
		}
	}
	found.schedules = len(distinct)
	return found, b
}
