package port

import (
	"reflect"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
)

// An exchange is an edge for elements.
type exchange[T any] struct {
	*edgeSender
	in   *Input[T]
	step []T           // given in this step; held by the token
	all  func(*T) bool // which elements go to every partition; nil if none does
}

// Exchange returns the elements of n at another location, in order. Each element is a record of the other location's history, and
// so is a mark; see [marked].
func Exchange[T any](n *engine.Node[T], op *engine.Op) *engine.Node[T] {
	if n.Mark != nil {
		return unmarked(exchangeElements(withMarks(n), op, isMark[T]), n.Loc)
	}
	return exchangeElements(n, op, nil)
}

// exchangeElements is Exchange of elements without a mark. Elements for which all reports true go to every partition.
func exchangeElements[T any](n *engine.Node[T], op *engine.Op, all func(*T) bool) *engine.Node[T] {
	leaves(op, &n.Head)
	to, l := op.Loc, engine.NewEdge(op, n.Loc)
	engine.CheckType[T](op)
	m := &exchange[T]{all: all, in: &Input[T]{InputBase: engine.InputBase{Loc: to, Op: op, Divided: true}, node: engine.NewNode[T](to.Top())}}
	if op.Shuffled && all == nil {
		m.in.Shared(false)
	}
	arrives(op, &n.Head, m.in)
	op.Takes(m.in.node.Counter())
	m.edgeSender = newEdgeSender(l, op, &n.Head, reflect.TypeFor[T]().String(), showSent[T])
	n.Loc.AddOutput(m.op, m)
	n = n.Origin()
	n.Outs = append(n.Outs, &engine.Consumer[T]{Push: func(batch []T) {
		if len(m.step) == 0 {
			m.From.Later = append(m.From.Later, m)
		}
		m.step = append(m.step, batch...)
	}})
	return m.in.node
}

// leaves panics if a collection with head h cannot be sent to the location of op.
func leaves(op *engine.Op, h *engine.Head) {
	if h.Region != nil && h.Region.Name != "" {
		engine.Misuse(op.Name, "the collection is inside %s: emit it first", h.Region)
	}
	if h.Loc == op.Loc {
		engine.Misuse(op.Name, "the collection is at %s already", h.Loc.Name)
	}
}

// arrives makes op, which is at another location, the reader of the collection with head src.
func arrives(op *engine.Op, src *engine.Head, in engine.Input) {
	if src.Op != nil {
		op.Ins = append(op.Ins, src.Op)
	}
	op.Loc.AddInput(op, in)
}

func (m *exchange[T]) Deliver() {
	n, in := len(m.step), m.in
	m.To.Mu.Lock()
	if len(in.buf) == 0 { // swap instead of copying
		in.buf, m.step = m.step, in.buf
	} else {
		in.buf = append(in.buf, m.step...)
	}
	m.Arrived(in, &in.InputBase, n)
	m.Discard()
}

func (m *exchange[T]) Discard() {
	clear(m.step)
	m.step = m.step[:0]
}

// A keyedExchange is an edge for keyed data.
type keyedExchange[K comparable, V any] struct {
	*edgeSender
	in    *KeyedInput[K, V]
	step  engine.Columns[K, V] // given in this step; held by the token
	dirty bool                 // step is not empty; held by the token
	all   func(*V) bool        // which entries go to every partition; nil if none does
}

// KeyedExchange is Exchange for a keyed stream, or a keyed singleton whose values never change.
func KeyedExchange[K comparable, V any](n *engine.KeyedNode[K, V], op *engine.Op) *engine.KeyedNode[K, V] {
	leaves(op, &n.Head)
	switch {
	case n.Forgets:
		return exchangeLives(n, op)
	case n.Mark != nil:
		return unmarkedKeyed(exchangeEntries(withMarksKeyed(n), op, isMark[V]), n.Loc)
	}
	return exchangeEntries(n, op, nil)
}

// exchangeEntries is KeyedExchange of entries that are never forgotten. Entries for which all reports true go to every partition,
// in order.
func exchangeEntries[K comparable, V any](n *engine.KeyedNode[K, V], op *engine.Op, all func(*V) bool) *engine.KeyedNode[K, V] {
	m := newKeyedExchange[K, V](&n.Head, op, all)
	checks := m.in.place != nil && m.From.Graph.Kept()
	engine.Attach(n.Origin(), func(b *engine.Batch[K, V]) {
		for i := 0; checks && i < len(b.K); i++ {
			m.placed(b.K[i], &b.V[i])
		}
		m.step.K = append(m.step.K, b.K...)
		m.step.V = append(m.step.V, b.V...)
		m.gave()
	}).One = func(k K, v V, _ uint64) {
		if checks {
			value := v // so that v itself is not on the heap
			m.placed(k, &value)
		}
		m.step.K, m.step.V = append(m.step.K, k), append(m.step.V, v)
		m.gave()
	}
	return m.in.node
}

// placed calls the method Affinity of a key that has one. If it panics, the step fails, and the record that gave the key is
// quarantined: nobody could place the entry later.
func (m *keyedExchange[K, V]) placed(k K, v *V) {
	if m.all == nil || !m.all(v) {
		m.op.Enter()
		m.in.place(k)
	}
}

// newKeyedExchange returns an edge to the location of op.
func newKeyedExchange[K comparable, V any](from *engine.Head, op *engine.Op, all func(*V) bool) *keyedExchange[K, V] {
	to, l := op.Loc, engine.NewEdge(op, from.Loc)
	engine.CheckType[K](op)
	engine.CheckType[V](op)
	m := &keyedExchange[K, V]{all: all, in: &KeyedInput[K, V]{InputBase: engine.InputBase{Loc: to, Op: op, Divided: true}, node: engine.NewKeyedNode[K, V](to.Top()), hash: engine.Hasher[K](), place: engine.PlacedBy[K](op)}}
	m.in.bars = all
	if op.Shuffled && all == nil {
		m.in.Shared(false)
	}
	arrives(op, from, m.in)
	op.Takes(m.in.node.Counter())
	m.edgeSender = newEdgeSender(l, op, from, reflect.TypeFor[K]().String()+","+reflect.TypeFor[V]().String(), showSentEntry[K, V])
	from.Loc.AddOutput(m.op, m)
	return m
}

// gave lists the edge for delivery if the step has given something.
func (m *keyedExchange[K, V]) gave() {
	if !m.dirty && len(m.step.K) > 0 {
		m.dirty = true
		m.From.Later = append(m.From.Later, m)
	}
}

func (m *keyedExchange[K, V]) Deliver() {
	n, in := len(m.step.K), m.in
	m.To.Mu.Lock()
	if len(in.buf.K) == 0 { // swap instead of copying
		in.buf, m.step = m.step, in.buf
	} else {
		in.buf.K = append(in.buf.K, m.step.K...)
		in.buf.V = append(in.buf.V, m.step.V...)
		in.buf.H = append(in.buf.H, m.step.H...)
	}
	m.Arrived(in, &in.InputBase, n)
	m.Discard()
}

func (m *keyedExchange[K, V]) Discard() {
	m.dirty = false
	engine.ClearEntries(&m.step)
}

// A lifeRow is a record of an entry that appears, or of a key that is forgotten.
type lifeRow[V any] struct {
	Gone  bool
	Value V
}

// exchangeLives is KeyedExchange of entries that can be forgotten. The forgetting of a key is a record, too.
func exchangeLives[K comparable, V any](n *engine.KeyedNode[K, V], op *engine.Op) *engine.KeyedNode[K, V] {
	op.Forgets = true
	rows := engine.NewKeyedNode[K, lifeRow[V]](n.Head)
	rows.Op = n.Op // not the operator that was built last at that location
	engine.Attach(n.Origin(), func(b *engine.Batch[K, V]) {
		for i, k := range b.K {
			gone := b.Gone != nil && b.Gone[i]
			rows.One(k, lifeRow[V]{Gone: gone, Value: b.V[i]}, 0)
		}
	}).One = func(k K, v V, h uint64) { rows.One(k, lifeRow[V]{Value: v}, h) }
	moved := exchangeEntries(rows, op, nil)
	out := engine.NewKeyedNode[K, V](moved.Head)
	out.Revises, out.Forgets = true, true
	var c engine.Columns[K, V]
	var gone []bool
	op.Scratch(&c, &gone)
	moved.To(func(b *engine.Batch[K, lifeRow[V]]) {
		c, gone = engine.Columns[K, V]{K: b.K, V: engine.Resize(c.V, len(b.K)), H: b.H}, engine.Resize(gone, len(b.K))
		for i, row := range b.V {
			c.V[i], gone[i] = row.Value, row.Gone
		}
		out.Push(&engine.Batch[K, V]{K: c.K, V: c.V, H: c.H, Gone: gone})
		clear(c.V)
	}).One = func(k K, row lifeRow[V], h uint64) {
		if !row.Gone {
			out.One(k, row.Value, h)
			return
		}
		out.Push(&engine.Batch[K, V]{K: []K{k}, V: []V{row.Value}, Gone: []bool{true}})
	}
	return out
}

// A marked is a record of a stream of events that is sent to another location: an event, or an
// advance of the mark. A mark is sent after the events that it covers, so it does not overtake one.
// Among keyed data a mark has the zero key and applies to all keys. It goes to every partition of the
// destination, also to those that get no event. The silence of a stream is not sent: the mark of a
// silent stream continues from the marks that depend on it, and those of other locations are not
// known.
type marked[T any] struct {
	Of    int // the partition whose mark it is, from 1 on; 0 if it is an event
	Mark  int64
	Value T
}

func isMark[T any](x *marked[T]) bool { return x.Of > 0 }

// newMarked returns the record of a mark of s.
func newMarked[T any](s *engine.Location, now int64) marked[T] {
	return marked[T]{Of: s.Partition() + 1, Mark: now}
}

// withMarks returns the records that represent n and its mark.
func withMarks[T any](n *engine.Node[T]) *engine.Node[marked[T]] {
	rows := engine.NewNode[marked[T]](n.Head)
	rows.Op = n.Op // not the operator that was built last at that location
	var all []marked[T]
	from := n.Origin()
	from.Outs = append(from.Outs, &engine.Consumer[T]{Push: func(batch []T) {
		all = engine.Resize(all, len(batch))
		for i, x := range batch {
			all[i] = marked[T]{Value: x}
		}
		rows.Push(all)
		clear(all)
	}})
	n.Mark.FollowTimes(func(now int64) { rows.Push([]marked[T]{newMarked[T](n.Loc, now)}) })
	return rows
}

// unmarked is the inverse of withMarks, at a location other than from.
func unmarked[T any](in *engine.Node[marked[T]], from *engine.Location) *engine.Node[T] {
	h := in.Head
	of := state.NewPartitionMarks(h.Op, from)
	h.Mark = of.Least()
	out := engine.NewNode[T](h)
	var events []T
	h.Op.Holds(&events)
	push := func() {
		engine.PushBlocks(out, events)
		clear(events)
		events = events[:0]
	}
	in.To(func(rows []marked[T]) {
		for i := range rows {
			if !isMark(&rows[i]) {
				events = append(events, rows[i].Value)
				continue
			}
			push()
			of.Advance(rows[i].Of-1, rows[i].Mark)
		}
		push()
	})
	return out
}

// withMarksKeyed is withMarks for keyed data.
func withMarksKeyed[K comparable, V any](n *engine.KeyedNode[K, V]) *engine.KeyedNode[K, marked[V]] {
	rows := engine.NewKeyedNode[K, marked[V]](n.Head)
	rows.Op = n.Op
	var values []marked[V]
	engine.Attach(n.Origin(), func(b *engine.Batch[K, V]) {
		values = engine.Resize(values, len(b.K))
		for i, v := range b.V {
			values[i] = marked[V]{Value: v}
		}
		rows.Push(&engine.Batch[K, marked[V]]{K: b.K, V: values, H: b.H})
		clear(values)
	})
	n.Mark.FollowTimes(func(now int64) {
		var all K
		rows.One(all, newMarked[V](n.Loc, now), 0)
	})
	return rows
}

// unmarkedKeyed is unmarked for keyed data.
func unmarkedKeyed[K comparable, V any](in *engine.KeyedNode[K, marked[V]], from *engine.Location) *engine.KeyedNode[K, V] {
	h := in.Head
	of := state.NewPartitionMarks(h.Op, from)
	h.Mark = of.Least()
	out := engine.NewKeyedNode[K, V](h)
	var events engine.Columns[K, V]
	var b engine.Batch[K, V]
	h.Op.Holds(&events)
	h.Op.Scratch(&b)
	push := func() {
		engine.PushEntries(out, events, &b)
		engine.ClearEntries(&events)
	}
	in.To(func(rows *engine.Batch[K, marked[V]]) {
		for i, k := range rows.K {
			x := &rows.V[i]
			if !isMark(x) {
				engine.AppendEntry(&events, false, k, x.Value, 0)
				continue
			}
			push()
			of.Advance(x.Of-1, x.Mark)
		}
		push()
	})
	return out
}
