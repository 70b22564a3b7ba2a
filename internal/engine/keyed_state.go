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
	now := &kept[K, V]{table: keyed.NewTable[K, V]()} // nobody is told of a change: state is no news
	for _, e := range init {
		v, added := now.table.Put(e.Key, hash.Hash(e.Key))
		if !added {
			Misuse(op.Name, "the key %v is given twice", e.Key)
		}
		*v = e.Value
	}
	value.live = now
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
		after := keyed.NewTable[K, V]()
		var hs []uint64
		next.To(func(b *Batch[K, V]) {
			for i, h := range b.hashes(hash, &hs) {
				v, _ := after.Put(b.K[i], h)
				*v = b.V[i]
			}
		})
		r.atEnd(func() {
			if r.site.g.set.Watch != nil {
				showEntries(r, op, now.table, after, hash)
			}
			now.table, after = after, now.table
			after.Clear()
		})
	}
}

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
