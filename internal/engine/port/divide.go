package port

import (
	"fmt"
	"hash/fnv"
	"math/bits"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/keyed"
)

// KDivide returns the part of n that belongs to each of the locations to. Every key belongs to exactly one of them. What belongs
// to the location of n itself is not moved.
//
// A batch is divided into columns that move as they are, with their hashes. So the cost is one hash and one append for each
// element, and the locations are locked once for each step.
func KDivide[K comparable, V any](n *engine.KeyedNode[K, V], op *engine.Op, to []*engine.Location) []*engine.KeyedNode[K, V] {
	if n.Mark == nil {
		return divide(n, op, to, nil)
	}
	parts := make([]*engine.KeyedNode[K, V], len(to))
	for i, rows := range divide(withMarksKeyed(n), op, to, isMark[V]) {
		parts[i] = unmarkedKeyed(rows, n.Loc)
	}
	return parts
}

// divide is KDivide of entries without marks. Entries for which all reports true go to every location, in order.
func divide[K comparable, V any](n *engine.KeyedNode[K, V], op *engine.Op, to []*engine.Location, all func(*V) bool) []*engine.KeyedNode[K, V] {
	if n.Region != nil && n.Region.Name != "" {
		engine.Misuse(op.Name, "the collection is inside %s: emit it first", n.Region)
	}
	if n.Loc.Graph.Kept() {
		engine.Misuse(op.Name, "a durable flow has no members: a dataflow.Cluster divides keys itself, send them there")
	}
	h := engine.Derived(op, n)
	d := &divider[K, V]{hash: engine.Hasher[K](), into: make([]*engine.Columns[K, V], len(to)), at: op, all: all}
	nodes := make([]*engine.KeyedNode[K, V], len(to))
	for i, s := range to {
		if s == n.Loc && h.Region == nil {
			nodes[i] = engine.NewKeyedNode[K, V](h)
			d.here, d.into[i] = nodes[i], &d.stays
			continue
		}
		from := h
		from.Op = op
		move := engine.NewOp(s, op.Name, "")
		move.Shuffled = op.Shuffled
		m := newKeyedExchange[K, V](&from, move, all)
		m.in.hashed = true
		nodes[i], d.into[i] = m.in.node, &m.step
		d.exchanges = append(d.exchanges, m)
	}
	op.Again() // other operators were made meanwhile
	d.listen(n)
	return nodes
}

// A divider is the state of a KDivide.
type divider[K comparable, V any] struct {
	at        *engine.Op
	hash      *keyed.Hasher[K]
	into      []*engine.Columns[K, V] // by location: what waits for the end of the step
	exchanges []*keyedExchange[K, V]
	here      *engine.KeyedNode[K, V] // of the location of n, if it is one of the locations
	stays     engine.Columns[K, V]
	where     []uint32      // by element: number of the location
	all       func(*V) bool // which entries go to every location; nil if none does
}

func (d *divider[K, V]) listen(n *engine.KeyedNode[K, V]) {
	op, loc := d.at, n.Loc
	var buf []uint64
	var o engine.Batch[K, V]
	consumer := n.To(func(b *engine.Batch[K, V]) {
		loc.At = op.Index
		hs := b.Hashes(d.hash, &buf)
		if loc.Graph.Settings.Steady {
			d.print(b.K)
		} else {
			d.assign(hs)
		}
		for i, w := range d.where[:len(b.K)] {
			if d.all != nil && d.all(&b.V[i]) {
				for _, c := range d.into {
					engine.AppendEntry(c, true, b.K[i], b.V[i], hs[i])
				}
				continue
			}
			engine.AppendEntry(d.into[w], true, b.K[i], b.V[i], hs[i])
		}
		for _, m := range d.exchanges {
			m.gave()
		}
		if len(d.stays.K) > 0 {
			o = engine.Batch[K, V]{K: d.stays.K, V: d.stays.V, H: d.stays.H}
			d.here.Push(&o)
			clear(d.stays.K)
			clear(d.stays.V)
			d.stays = engine.Columns[K, V]{K: d.stays.K[:0], V: d.stays.V[:0], H: d.stays.H[:0]}
		}
	})
	if loc.Graph.Settings.Steady || d.all != nil {
		return
	}
	consumer.One = func(k K, v V, h uint64) {
		loc.At = op.Index
		if h == 0 {
			h = d.hash.Hash(k)
		}
		c := d.into[d.place(h)]
		if c == &d.stays {
			d.here.One(k, v, h)
			return
		}
		c.K, c.V, c.H = append(c.K, k), append(c.V, v), append(c.H, h)
		for _, m := range d.exchanges {
			m.gave()
		}
	}
}

// place returns the number of the location to which a key with hash h belongs. It uses other bits of the hash than tables do;
// otherwise the tables of a location would fill unevenly.
func (d *divider[K, V]) place(h uint64) uint32 {
	w, _ := bits.Mul64(h*0x9e3779b97f4a7c15, uint64(len(d.into)))
	return uint32(w)
}

// assign sets where to the location of each element.
func (d *divider[K, V]) assign(hs []uint64) {
	d.where = engine.Resize(d.where, len(hs))
	for i, h := range hs {
		d.where[i] = d.place(h)
	}
}

// print is assign for a simulated graph. Hashes are random, and there the same choices must mean the same in every process.
func (d *divider[K, V]) print(ks []K) {
	d.where = engine.Resize(d.where, len(ks))
	for i, k := range ks {
		h := fnv.New32a()
		fmt.Fprint(h, k)
		d.where[i] = h.Sum32() % uint32(len(d.into))
	}
}
