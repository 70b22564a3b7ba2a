package engine

import "reflect"

// A move is a link for elements.
type move[T any] struct {
	*sending
	in   *Inlet[T]
	step []T // given in this step; held by the token
}

// Move returns the elements of n at another site, in order. Each is a record of the
// other site's history.
func Move[T any](n *Node[T], op *Op) *Node[T] {
	leaves(op, &n.Head)
	to, l := op.site, newLink(op, n.site)
	checkType[T](op)
	m := &move[T]{in: &Inlet[T]{door: door{site: to, op: op}, node: NewNode[T](to.Top())}}
	arrives(l, op, &n.Head, &m.in.node.Head, m.in)
	op.takes(m.in.node.counter())
	m.sending = newSending(l, op, &n.Head, reflect.TypeFor[T]().String(), showSent[T])
	n.site.addOutput(m.op, m)
	n = n.origin()
	n.outs = append(n.outs, &consumer[T]{push: func(batch []T) {
		if len(m.step) == 0 {
			m.from.later = append(m.from.later, m)
		}
		m.step = append(m.step, batch...)
	}})
	return m.in.node
}

// leaves panics if what has head h cannot be sent to where op is.
func leaves(op *Op, h *Head) {
	if h.region != nil && h.region.name != "" {
		Misuse(op.Name, "the collection is inside %s: emit it first", h.region)
	}
	if h.site == op.site {
		Misuse(op.Name, "the collection is at %s already", h.site.name)
	}
}

// arrives makes op, of another site, the reader of what has head src and the operator
// from which dst comes.
func arrives(l *link, op *Op, src, dst *Head, in input) {
	if src.op != nil {
		op.ins = append(op.ins, src.op)
	}
	l.src, l.dst = src.part, dst.part
	op.site.addInput(op, in, dst.part)
}

func (m *move[T]) deliver() {
	n, in := len(m.step), m.in
	m.to.mu.Lock()
	if len(in.buf) == 0 { // swap instead of copying
		in.buf, m.step = m.step, in.buf
	} else {
		in.buf = append(in.buf, m.step...)
	}
	m.arrived(in, &in.door, n)
	m.discard()
}

func (m *move[T]) discard() {
	clear(m.step)
	m.step = m.step[:0]
}

// A kmove is a link for keyed data.
type kmove[K comparable, V any] struct {
	*sending
	in    *KInlet[K, V]
	step  columns[K, V] // given in this step; held by the token
	dirty bool          // step is not empty; held by the token
}

// KMove is Move for a keyed stream, or a keyed singleton whose values never change.
func KMove[K comparable, V any](n *KNode[K, V], op *Op) *KNode[K, V] {
	leaves(op, &n.Head)
	m := newKMove[K, V](&n.Head, op)
	n.origin().add(func(b *Batch[K, V]) {
		m.step.k = append(m.step.k, b.K...)
		m.step.v = append(m.step.v, b.V...)
		m.gave()
	}).one = func(k K, v V, _ uint64) {
		m.step.k, m.step.v = append(m.step.k, k), append(m.step.v, v)
		m.gave()
	}
	return m.in.node
}

// newKMove returns a link to where op is.
func newKMove[K comparable, V any](from *Head, op *Op) *kmove[K, V] {
	to, l := op.site, newLink(op, from.site)
	checkType[K](op)
	checkType[V](op)
	m := &kmove[K, V]{in: &KInlet[K, V]{door: door{site: to, op: op}, node: NewKNode[K, V](to.Top()), hash: hasher[K]()}}
	arrives(l, op, from, &m.in.node.Head, m.in)
	op.takes(m.in.node.counter())
	m.sending = newSending(l, op, from, reflect.TypeFor[K]().String()+","+reflect.TypeFor[V]().String(), showSentEntry[K, V])
	from.site.addOutput(m.op, m)
	return m
}

// gave notes that the step may have given something.
func (m *kmove[K, V]) gave() {
	if !m.dirty && len(m.step.k) > 0 {
		m.dirty = true
		m.from.later = append(m.from.later, m)
	}
}

func (m *kmove[K, V]) deliver() {
	n, in := len(m.step.k), m.in
	m.to.mu.Lock()
	if len(in.buf.k) == 0 { // swap instead of copying
		in.buf, m.step = m.step, in.buf
	} else {
		in.buf.k = append(in.buf.k, m.step.k...)
		in.buf.v = append(in.buf.v, m.step.v...)
		in.buf.h = append(in.buf.h, m.step.h...)
	}
	m.arrived(in, &in.door, n)
	m.discard()
}

func (m *kmove[K, V]) discard() {
	m.dirty = false
	m.step.clear()
}
