package sim

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// A Ctx is the context of a client of a specification: the client passes it to its calls of
// ports. It belongs to its client and must not be used by another goroutine.
type Ctx struct {
	context.Context
	s      *Sim
	number int
	name   string
	open   []*Op // calls that have not returned
	done   bool  // the client has returned
}

// Name returns the name of the client.
func (c *Ctx) Name() string { return c.name }

// Choose returns a number from 0 to n-1; schedules with each of these are tried. The default is
// 0, and a counterexample has the default where it can. Choose panics if n is less than 1.
func (c *Ctx) Choose(n int) int {
	switch {
	case n < 1:
		panic(fmt.Sprintf("sim: Choose(%d) of %s: there is nothing to choose", n, c.name))
	case n == 1:
		return 0
	}
	x := c.s.choices.Choose(n)
	c.s.observed.Note(func() string { return fmt.Sprintf("%s chooses %d of %d", c.name, x, n) })
	return x
}

// Assume discards this schedule if ok is false, as if the schedule did not exist.
func (c *Ctx) Assume(ok bool) {
	if !ok {
		panic(errDiscarded)
	}
}

// Never asserts that something has not happened, even when nothing else can happen. Two kinds
// of schedules are explored: those that do everything else, run the check and end there, and
// those that continue without the check. The check may look at ports without waiting.
func (c *Ctx) Never(check func() error) {
	if c.s.choices.Choose(2) == 1 {
		return
	}
	c.s.observed.Note(func() string { return c.name + ": check for absence, and end" })
	err := c.s.steps.Quiesce()
	if err == nil {
		err = check()
	}
	if err != nil {
		c.s.spec.fail(fmt.Sprintf("client %q", c.name), err)
	}
	panic(errEnded)
}

// Observe makes what part of the schedule: two schedules in which a client observes different
// things count as two. The results of a client's uses of ports are always observed.
func (c *Ctx) Observe(what any) { c.observed(digest.Of(what)) }

// observed notes what the client has seen.
func (c *Ctx) observed(what uint64) { c.s.observed.Observed("client", uint64(c.number), what) }

// Logf logs a message, which is printed if the schedule fails.
func (c *Ctx) Logf(format string, args ...any) {
	c.s.Logf("%s: %s", c.name, fmt.Sprintf(format, args...))
}

// run calls the client and returns when it is done.
func (c *Ctx) run(do func(*Ctx) error) {
	spec := c.s.spec
	defer func() {
		switch p := recover(); p {
		case nil:
		case errEnded:
			spec.ended = true
			c.s.end()
		case errDiscarded:
			spec.discarded = true
			c.s.end()
		default:
			if simulate.Unwinds(p) {
				panic(p)
			}
			c.s.Logf("%s", debug.Stack())
			spec.fail(fmt.Sprintf("client %q", c.name), fmt.Errorf("it panicked: %v", p))
		}
	}()
	err := do(c)
	c.done = true
	spec.touched = append(spec.touched, client(c.number))
	if err != nil {
		spec.fail(fmt.Sprintf("client %q", c.name), err)
	}
}

// Call calls f, which uses ports, and treats it as one operation of the client with the given
// name. The operation begins with the first use of a port in f and ends with the last. Call
// returns what f returns. A request with its answer is such an operation, and so is a read
// followed by a write. A [Linear] looks at these operations.
func Call[T any](c *Ctx, name string, key, input any, f func() (T, error)) (T, error) {
	spec := c.s.spec
	op := &Op{Client: c.name, Port: name, Do: "call", Key: key, Input: input}
	spec.history = append(spec.history, op)
	c.open = append(c.open, op)
	x, err := f()
	c.open = c.open[:len(c.open)-1]
	op.Value, op.OK, op.Err, op.Return = x, err == nil, err, spec.now()
	if op.Call == 0 { // f has used no port
		op.Call = op.Return
	}
	spec.events = append(spec.events, op)
	spec.touched = append(spec.touched, client(c.number), clientOp(c.number, name))
	return x, err
}
