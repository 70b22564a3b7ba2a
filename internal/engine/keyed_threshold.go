package engine

// A crossing has the last value of a key while the threshold is missing, then the
// threshold until it is reached.
type crossing[V any] struct {
	x                  V
	valued, set, cross bool
}

// KThreshold returns the threshold of each key once its value has reached it, whichever
// of the two comes first. Values only grow. Either both are in one region, or
// thresholds is a constant, or both are at the top level.
func KThreshold[K comparable, V any](values, thresholds *KNode[K, V], op *Op, reached func(v, threshold V) bool) *KNode[K, V] {
	out := NewKNode[K, V](besideConstant(op, thresholds, values))
	out.fresh = values.fresh || thresholds.fresh
	table := newTable(remember(op, &out.Head), plain[K], crossingForm[V])
	hash := hasher[K]()
	var hs, ths []uint64 // not one: others read a batch that has it
	var c columns[K, V]
	var o Batch[K, V]
	op.holds(&c)
	op.scratch(&hs, &ths, &o)
	cross := func(s *crossing[V], k K, h uint64, threshold V) {
		c.k, c.v, c.h = append(c.k, k), append(c.v, threshold), append(c.h, h)
		*s = crossing[V]{cross: true}
	}
	flush := func() {
		if len(c.k) > 0 {
			o = Batch[K, V]{K: c.k, V: c.v, H: c.h}
			out.push(&o)
			c = columns[K, V]{c.k[:0], c.v[:0], c.h[:0]}
		}
	}
	values.To(func(b *Batch[K, V]) {
		op.site.at = op.index
		hs := b.hashes(hash, &hs)
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
	}).one = func(k K, v V, h uint64) {
		op.site.at = op.index
		s, h, _ := table.PutOne(hash, k, h)
		switch {
		case s.cross:
		case !s.set:
			s.x, s.valued = v, true
		case reached(v, s.x):
			x := s.x
			*s = crossing[V]{cross: true}
			out.one(k, x, h)
		}
	}
	thresholds.To(func(b *Batch[K, V]) {
		op.site.at = op.index
		for i, h := range b.hashes(hash, &ths) {
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
	}).one = func(k K, threshold V, h uint64) {
		op.site.at = op.index
		s, h, _ := table.PutOne(hash, k, h)
		switch {
		case s.cross || s.set:
		case s.valued && reached(s.x, threshold):
			*s = crossing[V]{cross: true}
			out.one(k, threshold, h)
		default:
			s.x, s.set, s.valued = threshold, true, false
		}
	}
	return out
}

// KUniform returns each key once its value has reached the limit, with the limit.
func KUniform[K comparable, V any](values *KNode[K, V], op *Op, limit V, reached func(v, limit V) bool) *KNode[K, V] {
	out := NewKNode[K, V](derived(op, values))
	out.fresh = values.fresh
	crossed := newSet[K](remember(op, &out.Head))
	hash := hasher[K]()
	var hs []uint64
	var c columns[K, V]
	var o Batch[K, V]
	op.scratch(&hs, &c, &o)
	values.To(func(b *Batch[K, V]) {
		op.site.at = op.index
		hs := b.hashes(hash, &hs)
		c = columns[K, V]{c.k[:0], c.v[:0], c.h[:0]}
		for i, k := range b.K {
			if !reached(b.V[i], limit) {
				continue
			}
			if _, added := crossed.Put(k, hs[i]); added {
				c.k, c.v, c.h = append(c.k, k), append(c.v, limit), append(c.h, hs[i])
			}
		}
		if len(c.k) > 0 {
			o = Batch[K, V]{K: c.k, V: c.v, H: c.h}
			out.push(&o)
		}
	}).one = func(k K, v V, h uint64) {
		op.site.at = op.index
		if !reached(v, limit) {
			return
		}
		if _, h, added := crossed.PutOne(hash, k, h); added {
			out.one(k, limit, h)
		}
	}
	return out
}
