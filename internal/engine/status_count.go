package engine

import "slices"

// What enters an operator is counted where it comes from: each node counts what it pushes,
// once for all its readers. A graph that does not count has no counters and pushes as
// directly as if there were none.

// A counter counts what a node pushed.
type counter struct {
	n uint64 // held by the token
	// counts, if not nil, has the number instead: an operator that gives as many elements as
	// it takes may be part of the loop of another one, and push nothing itself; see fuse.go.
	counts *counter
}

func (c *counter) total() uint64 {
	for c.counts != nil {
		c = c.counts
	}
	return c.n
}

// takes notes that what c counts enters op.
func (op *Op) takes(c *counter) {
	if c != nil && !slices.Contains(op.enters, c) {
		op.enters = append(op.enters, c)
	}
}

// enters notes that what c counts enters the operator being built.
func (s *Site) enters(c *counter) {
	if s.making != nil {
		s.making.takes(c)
	}
}

// counter returns the counter of n, or nil if the graph does not count.
func (n *Node[T]) counter() *counter {
	if n.sent == nil && n.site.g.set.Count {
		n.sent = new(counter)
	}
	return n.sent
}

// countedBy notes that n has as many elements as enter op, which makes it.
func (n *Node[T]) countedBy(op *Op) {
	if n.sent != nil && len(op.enters) == 1 {
		n.sent.counts = op.enters[0]
	}
}

// count has a compiled node count what it pushes, if somebody wants to know.
func (n *Node[T]) count() {
	c := n.sent
	if c == nil || c.counts != nil {
		return
	}
	push, one := n.push, n.one
	n.push = func(batch []T) {
		c.n += uint64(len(batch))
		push(batch)
	}
	n.one = func(x T) {
		c.n++
		one(x)
	}
}

// counter returns the counter of n, or nil if the graph does not count.
func (n *KNode[K, V]) counter() *counter {
	if n.sent == nil && n.site.g.set.Count {
		n.sent = new(counter)
	}
	return n.sent
}

// count has a compiled node count what it pushes, if somebody wants to know.
func (n *KNode[K, V]) count() {
	c := n.sent
	if c == nil {
		return
	}
	push, one := n.push, n.one
	n.push = func(b *Batch[K, V]) {
		c.n += uint64(len(b.K))
		push(b)
	}
	n.one = func(k K, v V, h uint64) {
		c.n++
		one(k, v, h)
	}
}

// counter returns the counter of c, or nil if the graph does not count.
func (c *Cell[T]) counter() *counter {
	if c.sent == nil && c.site.g.set.Count {
		sent := new(counter)
		c.sent = sent
		c.outs = append(c.outs, func(T) { sent.n++ })
		c.gones = append(c.gones, func() { sent.n++ })
	}
	return c.sent
}
