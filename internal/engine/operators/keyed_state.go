package operators

import (
	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// StateEntries carries a keyed singleton from one run of the slice to the next: value has its content in this run, and keep sets
// the node that gives the next one.
func StateEntries[K comparable, V any](r *engine.Region, op *engine.Op, init []Pair[K, V]) (value *engine.KeyedNode[K, V], keep func(next *engine.KeyedNode[K, V])) {
	value = engine.NewKeyedNode[K, V](r.Own())
	hash := engine.Hasher[K]()
	now := &index[K, V]{table: state.NewTable(engine.Lasting(op), state.Plain[K], state.Plain[V])} // changes are not reported, because state is no news
	check := keyed.CheckOf[K]()
	for _, e := range init {
		k := e.Key
		if check != nil {
			var err error
			if k, err = check(k); err != nil {
				panic(op.BadKey(k, err))
			}
		}
		v, added := now.table.Put(k, hash.Hash(k))
		if !added {
			engine.Misuse(op.Name, "the key %v is given twice", e.Key)
		}
		*v = e.Value
	}
	value.Index = now
	op.Scratch(&now.buffer)
	r.AtStep(func() {
		if len(value.Outs) > 0 {
			now.Each(value.Push)
		}
	})
	kept := false
	return value, func(next *engine.KeyedNode[K, V]) {
		if kept {
			engine.Misuse(op.Name, "the next content was given before")
		}
		kept = true
		op.Again()
		engine.Same(op.Name, value, next)
		e := &edits[K, V]{table: now.table, most: state.NewVar(engine.Lasting(op), 0)}
		var hs []uint64
		op.Holds(&e.stays.list, &e.at, &e.vs, &e.added)
		op.Scratch(&e.stays.set, &hs)
		next.To(func(b *engine.Batch[K, V]) { e.note(b, b.Hashes(hash, &hs)) }).One = func(k K, v V, h uint64) {
			if h == 0 {
				h = hash.Hash(k)
			}
			e.noteOne(k, v, h)
		}
		r.AtEnd(func() {
			if r.Loc.Graph.Settings.Watch == nil {
				e.apply(hash)
				return
			}
			before := state.Copied(now.table, hash)
			e.apply(hash)
			showEntries(r, op, before, now.table, hash)
		})
	}
}

// edits turn the present content of a table into the next one, in place. Until the run is over others read the present content.
// An entry that stays costs a probe, and neither a new entry nor the growth of a second table.
type edits[K comparable, V any] struct {
	table *keyed.Table[K, V]
	stays changes // entries whose key is in the next content
	at    []*V    // where the new values of the keys that stay go
	vs    []V
	added engine.Columns[K, V]
	most  *int // entries since the table was rebuilt
}

// note adds a part of the next content.
func (e *edits[K, V]) note(b *engine.Batch[K, V], hs []uint64) {
	e.table.Touch(hs)
	for i, k := range b.K {
		e.noteOne(k, b.V[i], hs[i])
	}
}

func (e *edits[K, V]) noteOne(k K, v V, h uint64) {
	if j, p := e.table.GetIndex(k, h); p != nil {
		e.table.Change(j)
		e.stays.add(j)
		e.at, e.vs = append(e.at, p), append(e.vs, v)
	} else {
		e.added.K, e.added.V, e.added.H = append(e.added.K, k), append(e.added.V, v), append(e.added.H, h)
	}
}

// apply changes the table to what was noted.
func (e *edits[K, V]) apply(hash *keyed.Hasher[K]) {
	for i, v := range e.at {
		*v = e.vs[i]
	}
	e.sweep(hash)
	for i, k := range e.added.K {
		*first(e.table.Put(k, e.added.H[i])) = e.added.V[i]
	}
	e.stays.clear()
	clear(e.at)
	clear(e.vs)
	clear(e.added.K)
	clear(e.added.V)
	e.at, e.vs = e.at[:0], e.vs[:0]
	e.added = engine.Columns[K, V]{K: e.added.K[:0], V: e.added.V[:0], H: e.added.H[:0]}
}

// sweep deletes the entries that do not stay.
func (e *edits[K, V]) sweep(hash *keyed.Hasher[K]) {
	n := len(e.stays.list)
	*e.most = max(*e.most, e.table.Len())
	if n == 0 || *e.most > 1024 && n+len(e.added.K) < *e.most/8 {
		e.rebuild(hash)
		return
	}
	gone := e.table.Len() - n
	for i := uint32(0); gone > 0; i++ {
		if k, _, ok := e.table.At(i); ok && !e.stays.has(i) {
			if !e.table.Delete(k, hash.Hash(k)) { // a key that is not equal to itself cannot be found
				e.rebuild(hash)
				return
			}
			gone--
		}
	}
}

// rebuild enters what stays into an empty table, which releases memory.
func (e *edits[K, V]) rebuild(hash *keyed.Hasher[K]) {
	var c engine.Columns[K, V]
	for _, i := range e.stays.list {
		k, v, _ := e.table.At(i)
		c.K, c.V = append(c.K, k), append(c.V, *v)
	}
	e.table.Clear()
	for i, k := range c.K {
		*first(e.table.Put(k, hash.Hash(k))) = c.V[i]
	}
	*e.most = 0
}

func first[T any](x T, _ bool) T { return x }

// showEntries reports to the simulator how a state changed.
func showEntries[K comparable, V any](r *engine.Region, op *engine.Op, before, after *keyed.Table[K, V], hash *keyed.Hasher[K]) {
	for k, v := range keyed.All(after) {
		if old := before.Get(k, hash.Hash(k)); old == nil || digest.Of(*old) != digest.Of(*v) {
			r.Show(op, k, *v)
		}
	}
	for k := range keyed.All(before) {
		if after.Get(k, hash.Hash(k)) == nil {
			r.Show(op, k, "gone")
		}
	}
}
