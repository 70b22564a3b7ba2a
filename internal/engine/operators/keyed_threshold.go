package operators

import (
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/state"
)

// A crossing holds the last value of a key while the threshold is missing, and then the threshold until it is reached.
type crossing[V any] struct {
	x                  V
	valued, set, cross bool
}

// KThreshold returns the threshold of each key once its value has reached it, whichever of the two comes first. Values only grow.
// Both are in one region, or thresholds is a constant, or both are at the top level.
func KThreshold[K comparable, V any](values, thresholds *engine.KeyedNode[K, V], op *engine.Op, reached func(v, threshold V) bool) *engine.KeyedNode[K, V] {
	out := engine.NewKeyedNode[K, V](besideConstant(op, thresholds, values))
	out.Fresh = values.Fresh || thresholds.Fresh
	table := state.NewTable(engine.Remember(op, &out.Head), state.Plain[K], crossingCodec[V])
	hash := engine.Hasher[K]()
	var hs, ths []uint64 // two, since other consumers read a batch with its hashes
	var c engine.Columns[K, V]
	var o engine.Batch[K, V]
	op.Holds(&c)
	op.Scratch(&hs, &ths, &o)
	cross := func(s *crossing[V], k K, h uint64, threshold V) {
		c.K, c.V, c.H = append(c.K, k), append(c.V, threshold), append(c.H, h)
		*s = crossing[V]{cross: true}
	}
	flush := func() {
		if len(c.K) > 0 {
			o = engine.Batch[K, V]{K: c.K, V: c.V, H: c.H}
			out.Push(&o)
			c = engine.Columns[K, V]{K: c.K[:0], V: c.V[:0], H: c.H[:0]}
		}
	}
	values.To(func(b *engine.Batch[K, V]) {
		op.Loc.At = op.Index
		hs := b.Hashes(hash, &hs)
		table.Touch(hs)
		for i, k := range b.K {
			s, _ := table.Put(k, hs[i])
			switch {
			case s.cross:
			case !s.set:
				s.x, s.valued = b.V[i], true
			case reached(b.V[i], s.x):
				cross(s, k, hs[i], s.x)
			}
		}
		flush()
	}).One = func(k K, v V, h uint64) {
		op.Loc.At = op.Index
		s, h, _ := table.PutOne(hash, k, h)
		switch {
		case s.cross:
		case !s.set:
			s.x, s.valued = v, true
		case reached(v, s.x):
			x := s.x
			*s = crossing[V]{cross: true}
			out.One(k, x, h)
		}
	}
	thresholds.To(func(b *engine.Batch[K, V]) {
		op.Loc.At = op.Index
		for i, h := range b.Hashes(hash, &ths) {
			k, threshold := b.K[i], b.V[i]
			s, _ := table.Put(k, h)
			switch {
			case s.cross || s.set:
			case s.valued && reached(s.x, threshold):
				cross(s, k, h, threshold)
			default:
				s.x, s.set, s.valued = threshold, true, false
			}
		}
		flush()
	}).One = func(k K, threshold V, h uint64) {
		op.Loc.At = op.Index
		s, h, _ := table.PutOne(hash, k, h)
		switch {
		case s.cross || s.set:
		case s.valued && reached(s.x, threshold):
			*s = crossing[V]{cross: true}
			out.One(k, threshold, h)
		default:
			s.x, s.set, s.valued = threshold, true, false
		}
	}
	return out
}

// KUniform returns each key once its value has reached the limit, with the limit.
func KUniform[K comparable, V any](values *engine.KeyedNode[K, V], op *engine.Op, limit V, reached func(v, limit V) bool) *engine.KeyedNode[K, V] {
	out := engine.NewKeyedNode[K, V](engine.Derived(op, values))
	out.Fresh = values.Fresh
	crossed := state.NewSet[K](engine.Remember(op, &out.Head))
	hash := engine.Hasher[K]()
	var hs []uint64
	var c engine.Columns[K, V]
	var o engine.Batch[K, V]
	op.Scratch(&hs, &c, &o)
	values.To(func(b *engine.Batch[K, V]) {
		op.Loc.At = op.Index
		hs := b.Hashes(hash, &hs)
		c = engine.Columns[K, V]{K: c.K[:0], V: c.V[:0], H: c.H[:0]}
		for i, k := range b.K {
			if !reached(b.V[i], limit) {
				continue
			}
			if _, added := crossed.Put(k, hs[i]); added {
				c.K, c.V, c.H = append(c.K, k), append(c.V, limit), append(c.H, hs[i])
			}
		}
		if len(c.K) > 0 {
			o = engine.Batch[K, V]{K: c.K, V: c.V, H: c.H}
			out.Push(&o)
		}
	}).One = func(k K, v V, h uint64) {
		op.Loc.At = op.Index
		if !reached(v, limit) {
			return
		}
		if _, h, added := crossed.PutOne(hash, k, h); added {
			out.One(k, limit, h)
		}
	}
	return out
}

// crossingCodec returns the codec of what KThreshold holds for a key.
func crossingCodec[V any](op *engine.Op) codec.Of[crossing[V]] {
	v := state.Plain[V](op)
	const valued, set, cross = 1, 2, 4
	return codec.Of[crossing[V]]{
		Kind: "crossing " + v.Kind,
		Save: func(dst []byte, c codec.Codec, x *crossing[V]) ([]byte, error) {
			var flags byte
			if x.valued {
				flags |= valued
			}
			if x.set {
				flags |= set
			}
			if x.cross {
				flags |= cross
			}
			return v.Save(append(dst, flags), c, &x.x)
		},
		Load: func(d *codec.Decoder, c codec.Codec, x *crossing[V]) {
			flags := d.Byte()
			x.valued, x.set, x.cross = flags&valued != 0, flags&set != 0, flags&cross != 0
			v.Load(d, c, &x.x)
		},
	}
}
