package engine

// A decision is what ScanFirst has of a key.
type decision[S any] struct {
	state S
	done  bool
}

// ScanFirst is Scan, and First of what step returned with true: one table has the
// state of a key and whether it is decided. What a batch emitted is pushed before what
// it decided.
func ScanFirst[K comparable, V, S, U, A any](in *KNode[K, V], op *Op, init func() S, step func(*S, V, func(U)) (A, bool)) (*KNode[K, U], *KNode[K, A]) {
	emitted, decided := NewKNode[K, U](derived(op, in)), NewKNode[K, A](derived(op, in))
	table := newTable(remember(op, &emitted.Head), plain[K], decisionForm[S])
	hash := hasher[K]()
	var hs []uint64
	var us columns[K, U]
	var ub Batch[K, U]
	var as columns[K, A]
	var ab Batch[K, A]
	var key K
	var h uint64
	op.holds(&us, &as)
	op.scratch(&hs, &ub, &ab, &key, &h)
	emit := func(u U) { us.k, us.v, us.h = append(us.k, key), append(us.v, u), append(us.h, h) }
	consumer, cur := track(op, in, func(b *Batch[K, V]) {
		hs := b.hashes(hash, &hs)[:len(b.K)]
		table.Touch(hs)
		for i, k := range b.K {
			s, added := table.Put(k, hs[i])
			op.at = i
			if added {
				s.state = init()
			}
			key, h = k, hs[i]
			if a, ok := step(&s.state, b.V[i], emit); ok && !s.done {
				s.done = true
				as.k, as.v, as.h = append(as.k, k), append(as.v, a), append(as.h, h)
			}
		}
		if len(us.k) > 0 {
			us.pushBlocks(emitted, &ub)
			clear(us.k)
			clear(us.v)
			us = columns[K, U]{us.k[:0], us.v[:0], us.h[:0]}
		}
		if len(as.k) > 0 {
			as.pushBlocks(decided, &ab)
			clear(as.k)
			clear(as.v)
			as = columns[K, A]{as.k[:0], as.v[:0], as.h[:0]}
		}
	})
	var es emissions[K, U]
	op.scratch(&es)
	add := es.add
	consumer.one = func(k K, v V, h uint64) {
		cur.enter(k)
		s, h, added := table.PutOne(hash, k, h)
		if added {
			s.state = init()
		}
		a, ok := step(&s.state, v, add)
		ok = ok && !s.done
		s.done = s.done || ok
		if es.any {
			es.pushTo(emitted, k, h)
		}
		if ok {
			decided.one(k, a, h)
		}
	}
	return emitted, decided
}
