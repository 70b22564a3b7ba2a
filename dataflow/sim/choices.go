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

// choices answer the questions of one schedule and note the answers.
type choices struct {
	from  chooser
	made  []int
	among []int  // of how many
	steps []step // the choices, moves by name
	moves int
	spec  *checked // unless a function is explored

	limits []int // how many moves each client makes at most; nil if there is no limit
	acts   []int // how many each has made
	cut    bool  // nothing is left but what clients may not do
}

// A chooser has a strategy.
type chooser interface {
	// choose returns a number in [0, n) for question number at.
	choose(at, n int) int
}

// A mover is a chooser that sees which moves it chooses from.
type mover interface {
	chooser
	// move returns the index of one of some moves, or -1 to end the schedule.
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

// ChooseOf implements [simulate.Selective]. The answers that are not worth trying have numbers as
// the others have, so that choices mean the same to whoever makes them again.
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

// of returns the number of the move that is made.
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

// Time implements [simulate.Timekeeper]. The usual time is noted as 0, and another one as how much
// later than the earliest one it is, in two numbers, so that an int of 32 bits has room for them:
// how often there are 2^30 ns in it, plus one, and what is left.
func (c *choices) Time(p simulate.Passing) int64 {
	at := p.Usual
	if !p.Matters {
		return at
	}
	switch from := c.from.(type) {
	case *descent:
		at = from.time(p.Usual)
	case *script, *guided:
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

// Clock implements [simulate.Timekeeper]. It is noted, so that a schedule means the same to whoever
// makes it again and knows nothing.
func (c *choices) Clock(usual int) int {
	switch from := c.from.(type) {
	case *script:
		if n := from.choose(len(c.made), math.MaxInt); from.known == nil {
			usual = n
		}
	case *guided:
		from.choose(len(c.made), math.MaxInt)
	}
	return c.timed(usual)
}

// timeBits is how many bits of a time are in one choice.
const timeBits = 30

// timed notes a part of a time. It has no alternative that can be tried blindly.
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

// known returns what a search knows.
func (c *choices) known() simulate.Known {
	switch from := c.from.(type) {
	case *descent:
		return from.known
	case *script:
		if from.known != nil {
			return *from.known
		}
	case *guided:
		return from.known
	}
	return simulate.Known{}
}

// ended says that the schedule has ended, and what turned out that was not known, and what to have
// one clock.
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

// traceOf prints choices so that they can be read again.
func traceOf(made []int) string {
	for len(made) > 0 && made[len(made)-1] == 0 { // the first choice is the default
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

// random chooses with a seed.
type random struct{ rng *rand.Rand }

func (r *random) choose(_, n int) int { return r.rng.IntN(n) }

// fuzzed chooses by bytes, and the default when they are used up.
type fuzzed struct{ data []byte }

func (z *fuzzed) choose(at, n int) int {
	if at >= len(z.data) {
		return 0
	}
	return int(z.data[at]) % n
}

// A script chooses what it says, and the default after that.
type script struct {
	made    []int
	repeats int             // how many there may be
	limits  []int           // how many moves each client makes at most
	known   *simulate.Known // what the search knew that made it; nil if that is in what it says
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
