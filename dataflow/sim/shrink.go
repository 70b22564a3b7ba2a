package sim

import (
	"cmp"
	"slices"

	"github.com/millrace/millrace/internal/engine/simulate"
)

// Limits for the number of schedules that are tried to find a shorter one that fails: in total, and
// for each use of a port that might be left out.
const (
	shrinkTries = 2000
	dropTries   = 300
)

// A step is a choice of a schedule: a move by name, or a number.
type step struct {
	move   bool
	name   simulate.Name
	chosen int
}

// A namedScript repeats the choices of another run, whose moves are known by name.
type namedScript struct {
	steps []step
	known simulate.Known
	at    int
}

func (g *namedScript) next() (s step, ok bool) {
	if g.at == len(g.steps) {
		return s, false
	}
	g.at++
	return g.steps[g.at-1], true
}

func (g *namedScript) choose(_, n int) int {
	if s, ok := g.next(); ok && !s.move {
		return min(s.chosen, n-1)
	}
	return 0
}

func (g *namedScript) move(all []simulate.Move) int {
	if s, ok := g.next(); ok && s.move {
		return max(slices.IndexFunc(all, func(m simulate.Move) bool { return m.Name == s.name }), 0)
	}
	return 0
}

// shortest returns the shortest schedule that fails, given one that does. Schedules are compared,
// in this order, by the number of moves of clients, if the failure comes before the end; by the
// number of choices that are not the default; by the number of moves; and by the choices. If few
// enough choices are not the default, the result does not depend on the given schedule. Otherwise
// it is the given one with as many choices as possible replaced by the default.
func (x subject) shortest(failed execution) execution {
	x.known = &failed.known
	best, ok := x.fewest(nil, shrinkTries)
	if !ok {
		return x.lessen(failed)
	}
	if x.plan == nil || best.atRest {
		return best
	}
	limits := slices.Clone(best.acts)
	for i := len(limits) - 1; i >= 0; i-- {
		for n := range limits[i] {
			fewer := slices.Clone(limits)
			fewer[i] = n
			if run, ok := x.fewest(fewer, dropTries); ok {
				limits = slices.Clone(run.acts)
				best = run
				break
			}
		}
	}
	return x.unlimited(best)
}

// unlimited runs a schedule with limited clients again without limits.
func (x subject) unlimited(run execution) execution {
	if again := x.execute(&namedScript{steps: run.steps, known: run.known}, nil); again.failed {
		return again
	}
	return run
}

// fewest looks for a failing schedule with the fewest choices that are not the default. It gives up
// after the given number of tries. If limits is not nil, clients make no more moves than it says.
func (x subject) fewest(limits []int, tries int) (best execution, found bool) {
	level := [][]int{nil}
	for len(level) > 0 && !found && tries > 0 && x.ctx.Err() == nil {
		var next [][]int
		for _, made := range level {
			if tries--; tries < 0 {
				break
			}
			run := x.execute(&script{made: made, repeats: 1, limits: limits, known: x.known}, nil)
			switch {
			case run.failed && (!found || shorter(run, best)):
				best, found = run, true
			case !found && !run.failed:
				for i := len(made); i < len(run.among); i++ {
					for alternative := 1; alternative < run.among[i]; alternative++ {
						next = append(next, append(slices.Clone(run.made[:i]), alternative))
					}
					if len(next) > tries {
						break
					}
				}
			}
		}
		level = next
	}
	return best, found
}

// shorter reports whether a is shorter than b. Both have the same number of choices that are not
// the default.
func shorter(a, b execution) bool {
	return cmp.Or(cmp.Compare(a.moves, b.moves), slices.Compare(a.made, b.made)) < 0
}

// lessen replaces choices of a schedule by the default, one after another, as long as it fails.
func (x subject) lessen(best execution) execution {
	given, err := scriptOf(best.trace)
	if err != nil {
		return best
	}
	try := func(made []int) bool {
		run := x.execute(&script{made: made, repeats: given.repeats, known: x.known}, nil)
		if !run.failed || run.property != best.property {
			return false
		}
		best, given.made = run, made
		return true
	}
	for tries, changed := shrinkTries, true; changed && tries > 0; {
		changed = false
		for i := len(given.made) - 1; i >= 0 && tries > 0; i-- {
			if i >= len(given.made) || given.made[i] == 0 {
				continue
			}
			tries -= 2
			if try(slices.Clone(given.made[:i])) {
				changed = true
				continue
			}
			less := slices.Clone(given.made)
			less[i] = 0
			changed = try(less) || changed
		}
	}
	return best
}
