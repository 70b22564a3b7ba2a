package port

import (
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// Figures implements [engine.Output].
func (c *Cycle[T]) Figures() engine.OutputStatus {
	return engine.OutputStatus{Op: c.op, Kind: engine.Cycled}
}

// A Cycle is a stream that exists before its source. What is fed back to it is a
// record of the history like one that came from outside, except that it is never
// refused: it counts in the queue, so that inputs wait for it, but does not wait
// itself.
type Cycle[T any] struct {
	engine.Inner
	engine.Endless
	loc  *engine.Location
	op   *engine.Op // that completes it
	loop *engine.Loop
	in   *Input[T]
	step []T // fed back in this step; held by the token
}

// NewCycle adds a cycle to the location.
func NewCycle[T any](s *engine.Location, op *engine.Op) (*Cycle[T], *engine.Node[T]) {
	op.Later = true
	h := s.Top()
	l := &engine.Loop{Name: fmt.Sprintf("%s (%s)", op.Name, op.Pos)}
	h.Loops = []*engine.Loop{l}
	c := &Cycle[T]{loc: s, loop: l, in: &Input[T]{InputBase: engine.InputBase{Loc: s, Op: op}, node: engine.NewNode[T](h)}}
	s.AddInput(op, c.in)
	op.Takes(c.in.node.Counter())
	s.Compiled(func() {
		if !l.Done {
			engine.Misuse(op.Name, "the cycle made at %s was never completed: nothing would ever come", op.Pos)
		}
	})
	return c, c.in.node
}

// Complete makes n the source of the cycle.
func (c *Cycle[T]) Complete(n *engine.Node[T], name string) {
	if c.loop.Done {
		engine.Misuse(name, "%s was completed before", c.loop.Name)
	}
	op := engine.NewOp(c.loc, name, "")
	h := engine.Same(op.Name, &engine.Head{Loc: c.loc}, n)
	c.in.Op.Ins = append(c.in.Op.Ins, op)
	for _, l := range h.Loops {
		if path := l.Reaches(c.loop, nil); path != nil {
			names := make([]string, len(path))
			for i, p := range path {
				names[i] = p.Name
			}
			engine.Misuse(name, "the stream follows the cycle itself, without a step in between: %s; feedback has to pass through a slice, MapAsync or After", strings.Join(names, " ← "))
		}
	}
	c.loop.Done, c.loop.From = true, h.Loops
	c.op = op
	c.loc.AddOutput(op, c)
	n.To(func(batch []T) {
		if len(c.step) == 0 {
			c.loc.Later = append(c.loc.Later, c)
		}
		c.step = append(c.step, batch...)
	})
}

// Operator implements [engine.Output].
func (c *Cycle[T]) Operator() *engine.Op { return c.op }

// Deliver makes records of what was fed back. The holder of the token finds them before it
// gives the token away.
func (c *Cycle[T]) Deliver() {
	s := c.loc
	s.Mu.Lock()
	if !s.Finished {
		c.in.buf = append(c.in.buf, c.step...)
		c.in.Accepted(c.in, len(c.step))
		s.Token.Tell()
	}
	s.Mu.Unlock()
	c.Discard()
}

// Discard implements [engine.Delivery].
func (c *Cycle[T]) Discard() {
	clear(c.step)
	c.step = c.step[:0]
}

// Loops implements [engine.Delivery].
func (c *Cycle[T]) Loops() bool { return true }

// Exchange implements [engine.Delivery].
func (c *Cycle[T]) Exchange() *engine.Edge { return nil }

// End implements [engine.Output].
func (c *Cycle[T]) End(error) {}

// Emit has nothing to append: what is fed back is taken before the step is encoded.
func (c *Cycle[T]) Emit(dst []byte, _ codec.Codec) ([]byte, error) { return dst, nil }
