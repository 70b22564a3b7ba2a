package engine

import (
	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/keyed"
)

// StateEntries carries a keyed singleton from one run of the slice to the next: the
// node has its content in this run, and keep says which node gives the next.
func StateEntries[K comparable, V any](r *Region, op *Op, init []Pair[K, V]) (value *KNode[K, V], keep func(next *KNode[K, V])) {
	value = NewKNode[K, V](r.Own())
	hash := hasher[K]()
	now := &kept[K, V]{table: newTable(lasting(op), plain[K], plain[V])} // nobody is told of a change: state is no news
	check := keyed.CheckOf[K]()
	for _, e := range init {
		if check != nil {
			if err := check(e.Key); err != nil {
				panic(op.badKey(e.Key, err))
			}
		}
		v, added := now.table.Put(e.Key, hash.Hash(e.Key))
		if !added {
			Misuse(op.Name, "the key %v is given twice", e.Key)
		}
		*v = e.Value
	}
	value.live = now
	op.scratch(&now.room)
	r.atStep(func() {
		if len(value.outs) > 0 {
			now.Each(value.push)
		}
	})
	kept := false
	return value, func(next *KNode[K, V]) {
		if kept {
			Misuse(op.Name, "the next content was given before")
		}
		kept = true
		op.again()
		Same(op.Name, value, next)
		e := &edits[K, V]{table: now.table, most: newVar(lasting(op), 0)}
		var hs []uint64
		op.holds(&e.stays.list, &e.at, &e.vs, &e.added)
		op.scratch(&e.stays.set, &hs)
		next.To(func(b *Batch[K, V]) { e.note(b, b.hashes(hash, &hs)) }).one = func(k K, v V, h uint64) {
			if h == 0 {
				h = hash.Hash(k)
			}
			e.noteOne(k, v, h)
		}
		r.atEnd(func() {
			if r.site.g.set.Watch == nil {
				e.apply(hash)
				return
			}
			before := copied(now.table, hash)
			e.apply(hash)
			showEntries(r, op, before, now.table, hash)
		})
	}
}

// edits make the next content of a table out of the present one, in place: until the
// run is over others read it as it is. What stays costs a probe, and neither a new
// entry nor the growth of a second table.
type edits[K comparable, V any] struct {
	table *keyed.Table[K, V]
	stays changes // entries whose key the next content has
	at    []*V    // where the values go that the next content has under keys that stay
	vs    []V
	added columns[K, V]
	most  *int // entries since the table was rebuilt
}

// note takes a part of the next content.
func (e *edits[K, V]) note(b *Batch[K, V], hs []uint64) {
	e.table.Touch(hs)
	for i, k := range b.K {
		e.noteOne(k, b.V[i], hs[i])
	}
}

func (e *edits[K, V]) noteOne(k K, v V, h uint64) {
	if j, p := e.table.GetIndex(k, h); p != nil {
		e.stays.add(j)
		e.at, e.vs = append(e.at, p), append(e.vs, v)
	} else {
		e.added.k, e.added.v, e.added.h = append(e.added.k, k), append(e.added.v, v), append(e.added.h, h)
	}
}

// apply makes the table what was noted.
func (e *edits[K, V]) apply(hash *keyed.Hasher[K]) {
	for i, v := range e.at {
		*v = e.vs[i]
	}
	e.sweep(hash)
	for i, k := range e.added.k {
		*first(e.table.Put(k, e.added.h[i])) = e.added.v[i]
	}
	e.stays.clear()
	clear(e.at)
	clear(e.vs)
	clear(e.added.k)
	clear(e.added.v)
	e.at, e.vs = e.at[:0], e.vs[:0]
	e.added = columns[K, V]{e.added.k[:0], e.added.v[:0], e.added.h[:0]}
}

// sweep deletes what does not stay.
func (e *edits[K, V]) sweep(hash *keyed.Hasher[K]) {
	n := len(e.stays.list)
	*e.most = max(*e.most, e.table.Len())
	if n == 0 || *e.most > 1024 && n+len(e.added.k) < *e.most/8 {
		e.rebuild(hash)
		return
	}
	gone := e.table.Len() - n
	for i := uint32(0); gone > 0; i++ {
		if k, _, ok := e.table.At(i); ok && !e.stays.has(i) {
			if !e.table.Delete(k, hash.Hash(k)) { // no lookup finds a key that is not equal to itself
				e.rebuild(hash)
				return
			}
			gone--
		}
	}
}

// rebuild enters what stays into an empty table, which gives memory back.
func (e *edits[K, V]) rebuild(hash *keyed.Hasher[K]) {
	var c columns[K, V]
	for _, i := range e.stays.list {
		k, v, _ := e.table.At(i)
		c.k, c.v = append(c.k, k), append(c.v, *v)
	}
	e.table.Clear()
	for i, k := range c.k {
		*first(e.table.Put(k, hash.Hash(k))) = c.v[i]
	}
	*e.most = 0
}

func first[T any](x T, _ bool) T { return x }

// showEntries notes how a state changed, for the simulator.
func showEntries[K comparable, V any](r *Region, op *Op, before, after *keyed.Table[K, V], hash *keyed.Hasher[K]) {
	for k, v := range after.All() {
		if old := before.Get(k, hash.Hash(k)); old == nil || digest.Of(*old) != digest.Of(*v) {
			r.show(op, k, *v)
		}
	}
	for k := range before.All() {
		if after.Get(k, hash.Hash(k)) == nil {
			r.show(op, k, "gone")
		}
	}
}
