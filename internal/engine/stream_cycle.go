package engine

import (
	"fmt"
	"slices"
	"strings"
)

// A loop is a cycle while a flow is built: what it is, and which cycles lie between
// it and what was fed back to it.
type loop struct {
	name string
	from []*loop // cycles that the completing stream follows without a record in between
	done bool
}

// reaches returns the loops on a way from l back to target, or nil. A loop that was
// visited is not visited again, since loops that a record separates may be circular.
func (l *loop) reaches(target *loop, path []*loop) []*loop {
	if slices.Contains(path, l) {
		return nil
	}
	path = append(path, l)
	if l == target {
		return path
	}
	for _, f := range l.from {
		if p := f.reaches(target, path); p != nil {
			return p
		}
	}
	return nil
}

// union returns the loops in a or b, and leaves both as they are.
func union(a, b []*loop) []*loop {
	for _, l := range b {
		if !slices.Contains(a, l) {
			a = append(slices.Clip(a), l)
		}
	}
	return a
}

// A Cycle is a stream that exists before its source. What is fed back to it is a
// record of the history like one that came from outside, except that it is never
// refused: it counts in the queue, so that inputs wait for it, but does not wait
// itself.
type Cycle[T any] struct {
	inner
	endless
	site *Site
	op   *Op // that completes it
	loop *loop
	in   *Inlet[T]
	step []T // fed back in this step; held by the token
}

// NewCycle adds a cycle to the site.
func NewCycle[T any](s *Site, op *Op) (*Cycle[T], *Node[T]) {
	op.later = true
	h := s.Top()
	l := &loop{name: fmt.Sprintf("%s (%s)", op.Name, op.Pos)}
	h.loops = []*loop{l}
	c := &Cycle[T]{site: s, loop: l, in: &Inlet[T]{door: door{site: s, op: op}, node: NewNode[T](h)}}
	s.addInput(op, c.in, h.part)
	op.takes(c.in.node.counter())
	s.compiled(func() {
		if !l.done {
			Misuse(op.Name, "the cycle made at %s was never completed: nothing would ever come", op.Pos)
		}
	})
	return c, c.in.node
}

// Complete makes n the source of the cycle.
func (c *Cycle[T]) Complete(n *Node[T], name string) {
	if c.loop.done {
		Misuse(name, "%s was completed before", c.loop.name)
	}
	op := NewOp(c.site, name, "")
	h := Same(op.Name, &Head{site: c.site, part: c.in.node.part}, n)
	c.in.op.ins = append(c.in.op.ins, op)
	for _, l := range h.loops {
		if path := l.reaches(c.loop, nil); path != nil {
			names := make([]string, len(path))
			for i, p := range path {
				names[i] = p.name
			}
			Misuse(name, "the stream follows the cycle itself, without a step in between: %s; feedback has to pass through a slice, MapAsync or After", strings.Join(names, " ← "))
		}
	}
	c.loop.done, c.loop.from = true, h.loops
	c.op = op
	c.site.addOutput(op, c)
	n.To(func(batch []T) {
		if len(c.step) == 0 {
			c.site.later = append(c.site.later, c)
		}
		c.step = append(c.step, batch...)
	})
}

func (c *Cycle[T]) operator() *Op { return c.op }

// deliver makes records of what was fed back. The holder of the token finds them before it
// gives the token away.
func (c *Cycle[T]) deliver() {
	s := c.site
	s.mu.Lock()
	if !s.finished {
		c.in.buf = append(c.in.buf, c.step...)
		c.in.accepted(c.in, len(c.step))
		s.token.tell()
	}
	s.mu.Unlock()
	c.discard()
}

func (c *Cycle[T]) discard() {
	clear(c.step)
	c.step = c.step[:0]
}

func (c *Cycle[T]) loops() bool     { return true }
func (c *Cycle[T]) exchange() *link { return nil }
func (c *Cycle[T]) end(error)       {}

// emit has nothing to append: what is fed back is taken before the step is encoded.
func (c *Cycle[T]) emit(dst []byte, _ Codec) ([]byte, error) { return dst, nil }
