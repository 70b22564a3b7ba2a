package engine

import (
	"fmt"
	"hash/fnv"
	"math/bits"

	"github.com/millrace/millrace/internal/keyed"
)

// KDivide returns what n has for each of some sites, of which every key belongs to
// one. What belongs to the site of n itself is not moved.
//
// A batch is divided into columns that are moved as they are, with their hashes, so
// the price is a hash and one append for each element; the sites are locked once for
// each step.
func KDivide[K comparable, V any](n *KNode[K, V], op *Op, to []*Site) []*KNode[K, V] {
	if n.region != nil && n.region.name != "" {
		Misuse(op.Name, "the collection is inside %s: emit it first", n.region)
	}
	if n.site.g.Kept() {
		Misuse(op.Name, "a durable flow has no members: a dataflow.Cluster divides keys itself, send them there")
	}
	h := derived(op, n)
	d := &divider[K, V]{hash: hasher[K](), into: make([]*columns[K, V], len(to)), at: op}
	nodes := make([]*KNode[K, V], len(to))
	for i, s := range to {
		if s == n.site && h.region == nil {
			nodes[i] = NewKNode[K, V](h)
			d.here, d.into[i] = nodes[i], &d.stays
			continue
		}
		from := h
		from.op = op
		m := newKMove[K, V](&from, NewOp(s, op.Name, ""))
		m.in.hashed = true
		nodes[i], d.into[i] = m.in.node, &m.step
		d.moves = append(d.moves, m)
	}
	op.again() // others were made meanwhile
	d.listen(n)
	return nodes
}

// A divider is the state of a KDivide.
type divider[K comparable, V any] struct {
	at    *Op
	hash  *keyed.Hasher[K]
	into  []*columns[K, V] // by site: what waits for the end of the step
	moves []*kmove[K, V]
	here  *KNode[K, V] // of the site itself, if it is one of those
	stays columns[K, V]
	where []uint32 // by element: number of the site
}

func (d *divider[K, V]) listen(n *KNode[K, V]) {
	op, site := d.at, n.site
	var room []uint64
	var o Batch[K, V]
	consumer := n.To(func(b *Batch[K, V]) {
		site.at = op.index
		hs := b.hashes(d.hash, &room)
		if site.g.set.Steady {
			d.print(b.K)
		} else {
			d.assign(hs)
		}
		for i, w := range d.where[:len(b.K)] {
			c := d.into[w]
			c.k = append(c.k, b.K[i])
			c.v = append(c.v, b.V[i])
			c.h = append(c.h, hs[i])
		}
		for _, m := range d.moves {
			m.gave()
		}
		if len(d.stays.k) > 0 {
			o = Batch[K, V]{K: d.stays.k, V: d.stays.v, H: d.stays.h}
			d.here.push(&o)
			clear(d.stays.k)
			clear(d.stays.v)
			d.stays = columns[K, V]{d.stays.k[:0], d.stays.v[:0], d.stays.h[:0]}
		}
	})
	if site.g.set.Steady {
		return
	}
	consumer.one = func(k K, v V, h uint64) {
		site.at = op.index
		if h == 0 {
			h = d.hash.Hash(k)
		}
		c := d.into[d.place(h)]
		if c == &d.stays {
			d.here.one(k, v, h)
			return
		}
		c.k, c.v, c.h = append(c.k, k), append(c.v, v), append(c.h, h)
		for _, m := range d.moves {
			m.gave()
		}
	}
}

// place says to which site a key with hash h belongs. It uses other bits of the hash than
// tables do, or those of a site would be filled unevenly.
func (d *divider[K, V]) place(h uint64) uint32 {
	w, _ := bits.Mul64(h*0x9e3779b97f4a7c15, uint64(len(d.into)))
	return uint32(w)
}

// assign says to which site each element belongs.
func (d *divider[K, V]) assign(hs []uint64) {
	d.where = resize(d.where, len(hs))
	for i, h := range hs {
		d.where[i] = d.place(h)
	}
}

// print is assign for a driven graph, in which the same choices have to mean the same
// in every process: hashes are random.
func (d *divider[K, V]) print(ks []K) {
	d.where = resize(d.where, len(ks))
	for i, k := range ks {
		h := fnv.New32a()
		fmt.Fprint(h, k)
		d.where[i] = h.Sum32() % uint32(len(d.into))
	}
}
