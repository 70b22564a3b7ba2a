package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// choices answers the questions of one schedule and notes the answers.
type choices struct {
	from  chooser
	made  []int
	among []int  // how many possibilities each choice had
	steps []step // the choices, moves by name
	moves int
	spec  *specRun // nil if a function is explored

	limits []int // the most moves each client makes; nil if there is no limit
	acts   []int // the number of moves that each client has made
	cut    bool  // only moves that the limits forbid are left
}

// A chooser is a strategy for making choices.
type chooser interface {
	// choose returns a number in [0, n) for question number at.
	choose(at, n int) int
}

// A mover is a chooser that sees the moves from which it chooses.
type mover interface {
	chooser
	// move returns the index of the chosen move, or -1 to end the schedule.
	move(all []simulate.Move) int
}

func newChoices(from chooser) *choices {
	c := &choices{from: from}
	if s, ok := from.(*script); ok {
		c.limits = s.limits
	}
	return c
}

// Choose implements [simulate.Chooser].
func (c *choices) Choose(n int) int { return c.ChooseOf(n, nil) }

// ChooseOf implements [simulate.Selective]. Answers that are not worth trying have numbers too, so
// that choices keep their meaning when they are made again.
func (c *choices) ChooseOf(n int, worth func(i int) bool) int {
	d, ok := c.from.(*descent)
	var x int
	if ok && worth != nil {
		x = d.chooseOf(n, worth)
	} else {
		x = c.from.choose(len(c.made), n)
	}
	c.chose(x, n)
	c.steps = append(c.steps, step{chosen: x})
	return x
}

func (c *choices) chose(x, n int) { c.made, c.among = append(c.made, x), append(c.among, n) }

// Next implements [simulate.Guide].
func (c *choices) Next(all []simulate.Move) int {
	x := c.next(all)
	if x >= 0 {
		c.moves++
		if c.spec != nil {
			c.spec.moving(&all[x], len(all))
		}
	}
	return x
}

func (c *choices) next(all []simulate.Move) int {
	if c.limits == nil {
		return c.of(all)
	}
	var some []simulate.Move
	var at []int
	for i, m := range all {
		if m.Kind == simulate.Acts && c.acts[m.Op] >= c.limits[m.Op] {
			continue
		}
		some, at = append(some, m), append(at, i)
	}
	if len(some) == 0 {
		c.cut = true
		return -1
	}
	return at[c.of(some)]
}

// of returns the number of the move to make.
func (c *choices) of(all []simulate.Move) (x int) {
	m, ok := c.from.(mover)
	switch {
	case ok:
		if x = m.move(all); x < 0 {
			return x
		}
	case len(all) > 1:
		x = c.from.choose(len(c.made), len(all))
	}
	if len(all) > 1 {
		c.chose(x, len(all))
	}
	c.steps = append(c.steps, step{move: true, name: all[x].Name})
	return x
}

// Time implements [simulate.Timekeeper]. The usual time is recorded as 0. Another time is recorded
// as its distance from the earliest one, in two numbers that each fit into an int of 32 bits: the
// number of times that 2^30 ns go into the distance, plus one, and the remainder.
func (c *choices) Time(p simulate.Passing) int64 {
	at := p.Usual
	if !p.Matters {
		return at
	}
	switch from := c.from.(type) {
	case *descent:
		at = from.time(p.Usual)
	case *script, *namedScript:
		high := c.timed(from.choose(len(c.made), math.MaxInt))
		if high == 0 {
			return at
		}
		low := c.timed(from.choose(len(c.made), 1<<timeBits))
		return p.Earliest + int64(high-1)<<timeBits + int64(low)
	default:
		times := someTimes(p)
		at = times[from.choose(len(c.made), len(times))]
	}
	if at == p.Usual {
		c.timed(0)
		return at
	}
	later := at - p.Earliest
	c.timed(int(later>>timeBits) + 1)
	c.timed(int(later & (1<<timeBits - 1)))
	return at
}

// Clock implements [simulate.Timekeeper]. It records the clock, so that the choices mean the same
// when they are made again without what the search knew.
func (c *choices) Clock(usual int) int {
	switch from := c.from.(type) {
	case *script:
		if n := from.choose(len(c.made), math.MaxInt); from.known == nil {
			usual = n
		}
	case *namedScript:
		from.choose(len(c.made), math.MaxInt)
	}
	return c.timed(usual)
}

// timeBits is the number of bits of a time that one choice holds.
const timeBits = 30

// timed records a part of a time. It has no alternative that can be tried blindly.
func (c *choices) timed(made int) int {
	c.chose(made, 1)
	c.steps = append(c.steps, step{chosen: made})
	return made
}

// Made implements [simulate.Listener].
func (c *choices) Made(e simulate.Effect) {
	if c.spec != nil {
		c.spec.made(&e)
	}
	if d, ok := c.from.(*descent); ok {
		d.made(e)
	}
}

// Used implements [simulate.Witness].
func (c *choices) Used(client int, u engine.Use) {
	if c.spec != nil {
		c.spec.used(client, u)
	}
}

// known returns what the search knows.
func (c *choices) known() simulate.Known {
	switch from := c.from.(type) {
	case *descent:
		return from.known
	case *script:
		if from.known != nil {
			return *from.known
		}
	case *namedScript:
		return from.known
	}
	return simulate.Known{}
}

// ended notes the end of the schedule: what turned out that was not known, and which timers need to
// share one clock.
func (c *choices) ended(missed simulate.Known, shared simulate.Groups) {
	if d, ok := c.from.(*descent); ok {
		d.missed, d.shared = missed, shared
	}
}

// blocked reports whether the schedule was given up.
func (c *choices) blocked() bool {
	d, ok := c.from.(*descent)
	return ok && d.blocked
}

// traceOf formats choices in the form that scriptOf reads.
func traceOf(made []int) string {
	for len(made) > 0 && made[len(made)-1] == 0 { // the first possibility is the default
		made = made[:len(made)-1]
	}
	if len(made) == 0 {
		return "0"
	}
	words := make([]string, len(made))
	for i, x := range made {
		words[i] = strconv.Itoa(x)
	}
	return strings.Join(words, ".")
}

// random chooses with a random number generator.
type random struct{ rng *rand.Rand }

func (r *random) choose(_, n int) int { return r.rng.IntN(n) }

// fuzzed takes its choices from bytes. When they are used up, it chooses the default.
type fuzzed struct{ data []byte }

func (z *fuzzed) choose(at, n int) int {
	if at >= len(z.data) {
		return 0
	}
	return int(z.data[at]) % n
}

// A script makes the choices in made, and the default after them.
type script struct {
	made    []int
	repeats int             // the most records that may come again
	limits  []int           // the most moves each client makes
	known   *simulate.Known // what the search that made it knew; nil if made includes that
}

func scriptOf(trace string) (*script, error) {
	c := &script{repeats: 1}
	digits, many := strings.CutPrefix(trace, manyRepeats)
	if many {
		c.repeats = 3
	}
	for word := range strings.SplitSeq(digits, ".") {
		x, err := strconv.Atoi(word)
		if err != nil || x < 0 {
			return nil, fmt.Errorf("%q is no schedule: it has to be numbers with dots between them", trace)
		}
		c.made = append(c.made, x)
	}
	return c, nil
}

func (c *script) choose(at, n int) int {
	if at >= len(c.made) {
		return 0
	}
	return min(c.made[at], n-1)
}

// fits reports whether a schedule made the choices of the script. If the program has changed, there may be too few
// choices in it, or too few possibilities.
func (c *script) fits(run execution) bool {
	return strings.TrimPrefix(run.trace, manyRepeats) == traceOf(c.made)
}

// misfit says that a schedule that a user has given was not run.
const misfit = "the given choices do not fit: the program or the specification has changed since, or they belong to another test"
