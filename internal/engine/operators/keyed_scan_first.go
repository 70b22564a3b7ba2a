package operators

import (
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/state"
)

// A decision is what ScanFirst holds for a key.
type decision[S any] struct {
	state S
	done  bool
}

// ScanFirst combines Scan with First of what step returned with true: one table holds the state of a key and whether it is
// decided. What a batch emitted is pushed before what it decided.
func ScanFirst[K comparable, V, S, U, A any](in *engine.KeyedNode[K, V], op *engine.Op, init func() S, step func(*S, V, func(U)) (A, bool)) (*engine.KeyedNode[K, U], *engine.KeyedNode[K, A]) {
	emitted, decided := engine.NewKeyedNode[K, U](engine.Derived(op, in)), engine.NewKeyedNode[K, A](engine.Derived(op, in))
	table := state.NewTable(engine.Remember(op, &emitted.Head), state.Plain[K], decisionCodec[S])
	hash := engine.Hasher[K]()
	var hs []uint64
	var us engine.Columns[K, U]
	var ub engine.Batch[K, U]
	var as engine.Columns[K, A]
	var ab engine.Batch[K, A]
	var key K
	var h uint64
	op.Holds(&us, &as)
	op.Scratch(&hs, &ub, &ab, &key, &h)
	emit := func(u U) { us.K, us.V, us.H = append(us.K, key), append(us.V, u), append(us.H, h) }
	consumer, cur := track(op, in, func(b *engine.Batch[K, V]) {
		hs := b.Hashes(hash, &hs)[:len(b.K)]
		table.Touch(hs)
		for i, k := range b.K {
			s, added := table.Put(k, hs[i])
			op.At = i
			if added {
				s.state = init()
			}
			key, h = k, hs[i]
			if a, ok := step(&s.state, b.V[i], emit); ok && !s.done {
				s.done = true
				as.K, as.V, as.H = append(as.K, k), append(as.V, a), append(as.H, h)
			}
		}
		if len(us.K) > 0 {
			engine.PushEntries(emitted, us, &ub)
			clear(us.K)
			clear(us.V)
			us = engine.Columns[K, U]{K: us.K[:0], V: us.V[:0], H: us.H[:0]}
		}
		if len(as.K) > 0 {
			engine.PushEntries(decided, as, &ab)
			clear(as.K)
			clear(as.V)
			as = engine.Columns[K, A]{K: as.K[:0], V: as.V[:0], H: as.H[:0]}
		}
	})
	var es emissions[K, U]
	op.Scratch(&es)
	add := es.add
	consumer.One = func(k K, v V, h uint64) {
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
			decided.One(k, a, h)
		}
	}
	return emitted, decided
}

// decisionCodec returns the codec of what ScanFirst holds for a key.
func decisionCodec[S any](op *engine.Op) codec.Of[decision[S]] {
	state := state.Plain[S](op)
	return codec.Of[decision[S]]{
		Kind: "decision " + state.Kind,
		Save: func(dst []byte, c codec.Codec, x *decision[S]) ([]byte, error) {
			var done byte
			if x.done {
				done = 1
			}
			return state.Save(append(dst, done), c, &x.state)
		},
		Load: func(d *codec.Decoder, c codec.Codec, x *decision[S]) {
			x.done = d.Byte() == 1
			state.Load(d, c, &x.state)
		},
	}
}
