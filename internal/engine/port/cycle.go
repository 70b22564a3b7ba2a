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

// A Cycle is a stream that exists before its source. An element that is fed back is a record of the history like one from
// outside, except that it is never refused: it counts toward the queue's limit, so inputs wait for it, but it does not wait
// itself.
type Cycle[T any] struct {
	engine.Inner
	engine.Endless
	loc  *engine.Location
	op   *engine.Op // the operator that completes it
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
	n.To(func(batch []T) { c.feed(batch...) })
}

// feed lets elements continue when the step is published.
func (c *Cycle[T]) feed(xs ...T) {
	if len(c.step) == 0 {
		c.loc.Later = append(c.loc.Later, c)
	}
	c.step = append(c.step, xs...)
}

// Operator implements [engine.Output].
func (c *Cycle[T]) Operator() *engine.Op { return c.op }

// Deliver makes records of what was fed back. The holder of the token finds them before it gives the token up.
func (c *Cycle[T]) Deliver() {
	s := c.loc
	s.Mu.Lock()
	if !s.Finished {
		c.in.buf = append(c.in.buf, c.step...)
		c.in.Accepted(c.in, len(c.step))
		s.Token.NotifyHolder()
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

// Laned reports whether records can be taken in any order, and whether records of different keys can.
func (in *Input[T]) Laned() (all, keys bool) {
	return in.unordered != nil && in.lane == nil, in.unordered != nil
}

// Laned reports whether records can be taken in any order, and whether records of different keys can.
func (in *KeyedInput[K, V]) Laned() (all, keys bool) { return in.unordered != nil || in.once, true }

// Laned reports what it does for the entries.
func (in *answers[K, V, U]) Laned() (all, keys bool) { return in.to.in.Laned() }

// Loose returns the elements of n, whose order the operator called name gives up. With keyed, it gives up only the order between
// keys, and each key comes once. In a simulation the elements come in any such order. See [engine.Location.Loosen].
func Loose[T any](n *engine.Node[T], name string, keyed bool) *engine.Node[T] {
	return loose(n, name, keyed, nil)
}

// loose is Loose, except that elements for which by returns the same value keep their order. A nil by is ignored.
func loose[T any](n *engine.Node[T], name string, keyed bool, by func(T) uint64) *engine.Node[T] {
	s := n.Loc
	if !s.Simulated() || n.Region != nil || n.Mark != nil {
		return n
	}
	op := s.Loosen(name, &n.Head, keyed)
	out := engine.NewNode[T](n.Head)
	out.Op = op
	in := &Input[T]{InputBase: engine.InputBase{Loc: s, Op: op}, node: out, lane: by}
	in.Shared(false)
	if by != nil {
		in.unordered.byWhat = make(map[uint64]int) // so everything with one digest is in one lane
	}
	op.Waits(in)
	c := &Cycle[T]{loc: s, op: op, in: in}
	to := &engine.Consumer[T]{Push: func(batch []T) {
		if op.Loose() {
			c.feed(batch...)
		} else {
			out.Push(batch)
		}
	}, One: func(x T) {
		if op.Loose() {
			c.feed(x)
		} else {
			out.One(x)
		}
	}}
	n = n.Origin()
	n.Outs = append(n.Outs, to)
	return out
}

// A looseEntry is an entry of a keyed stream.
type looseEntry[K comparable, V any] struct {
	K K
	V V
}

// KLoose is Loose for a keyed stream. If ordered, values of one key keep their order.
func KLoose[K comparable, V any](n *engine.KeyedNode[K, V], name string, ordered bool) *engine.KeyedNode[K, V] {
	s := n.Loc
	if !s.Simulated() || n.Region != nil || n.Mark != nil || n.Revises || n.Forgets || n.Index != nil {
		return n
	}
	rows := engine.NewNode[looseEntry[K, V]](n.Head)
	rows.Op = n.Op
	engine.Attach(n.Origin(), func(b *engine.Batch[K, V]) {
		for i, k := range b.K {
			rows.One(looseEntry[K, V]{k, b.V[i]})
		}
	})
	var by func(looseEntry[K, V]) uint64
	if ordered {
		by = func(e looseEntry[K, V]) uint64 { return engine.KeyDigest(e.K) }
	}
	free := loose(rows, name, ordered, by)
	out := engine.NewKeyedNode[K, V](free.Head)
	out.Op = free.Op
	out.Fresh, out.Lives = n.Fresh, n.Lives
	free.Outs = append(free.Outs, &engine.Consumer[looseEntry[K, V]]{Push: func(es []looseEntry[K, V]) {
		for _, e := range es {
			out.One(e.K, e.V, 0)
		}
	}})
	return out
}
