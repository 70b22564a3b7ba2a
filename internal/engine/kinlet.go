package engine

import (
	"context"
	"slices"

	"github.com/millrace/millrace/internal/keyed"
)

// A KInlet is an input of keyed data.
type KInlet[K comparable, V any] struct {
	door
	node   *KNode[K, V]
	seen   *keyed.Table[K, struct{}] // keys accepted so far, if none may come twice; guarded by mu
	hash   *keyed.Hasher[K]
	check  func(K) error // says why a value cannot be a key; nil if all can
	hashed bool          // records come with their hash
	buf    columns[K, V] // accepted; guarded by mu
	_      apart
	taken  columns[K, V] // held by the token, as all below
	off    int
	oneK   [1]K
	oneV   [1]V
	oneH   [1]uint64
	batch  Batch[K, V]
	lanes  map[K]int // of a driven site: keys in order of their first record
}

// columns are records of keyed data; h is empty where nobody has hashed them.
type columns[K comparable, V any] struct {
	k []K
	v []V
	h []uint64
}

// NewKInlet adds an input to the site. If unique, a key is accepted only once.
func NewKInlet[K comparable, V any](s *Site, op *Op, unique bool) (*KInlet[K, V], *KNode[K, V]) {
	in := &KInlet[K, V]{door: door{site: s, op: op}, node: NewKNode[K, V](s.Top()), hash: keyed.HasherOf[K](), check: keyed.CheckOf[K]()}
	in.node.part.inlets = append(in.node.part.inlets, in)
	s.replayers = append(s.replayers, replayInlet{op, in})
	if unique {
		in.seen, in.hashed = keyed.NewTable[K, struct{}](), true
		setOf(op, nil, in.seen)
	}
	s.doors = append(s.doors, &in.door)
	s.takers[op.index] = in
	checkType[K](op)
	checkType[V](op)
	s.open++
	return in, in.node
}

// Send accepts (k, v), or waits until there is room for it.
func (in *KInlet[K, V]) Send(ctx context.Context, k K, v V) error {
	s := in.site
	if in.check != nil {
		if err := in.check(k); err != nil {
			return in.op.badKey(k, err)
		}
	}
	if in.seen != nil {
		return in.sendOnce(ctx, k, v)
	}
	r := s.g.remote()
	if !in.shut.Load() && (s.token.take() || r == nil && s.token.await()) {
		return s.after(in.run(k, v, 0))
	}
	if r != nil {
		return in.sendRemote(ctx, r, k, v)
	}
	s.mu.Lock()
	idle, err := in.room(ctx)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	return in.accept(k, v, 0, idle)
}

// sendOnce is Send for keys that may come once. The keys are guarded by mu and not by
// the token, because a sender that finds the token held has to be told, too.
func (in *KInlet[K, V]) sendOnce(ctx context.Context, k K, v V) error {
	s := in.site
	if r := s.g.remote(); r != nil {
		return in.sendRemote(ctx, r, k, v)
	}
	h := in.hash.Hash(k)
	idle := !in.shut.Load() && (s.token.take() || s.token.await())
	s.mu.Lock()
	if !idle {
		// Who would have to wait, or is refused, is told first that the key is there.
		if (s.queued >= s.g.set.Queue || in.refuse() != nil) && in.seen.Get(k, h) != nil {
			s.mu.Unlock()
			return ErrDuplicate
		}
		var err error
		if idle, err = in.room(ctx); err != nil {
			s.mu.Unlock()
			return err
		}
	}
	if _, added := in.seen.Put(k, h); !added {
		if idle {
			s.settle(1)
		} else { // it came while we waited for room
			s.mu.Unlock()
		}
		return ErrDuplicate
	}
	return in.accept(k, v, h, idle)
}

// accept runs a record if the site is idle, or leaves it. It is called with mu held and
// returns with mu free. If the caller runs the site and that fails, accept returns why.
func (in *KInlet[K, V]) accept(k K, v V, h uint64, idle bool) error {
	if idle {
		in.site.mu.Unlock()
		return in.site.after(in.run(k, v, h))
	}
	in.append(k, v, h)
	in.accepted(in, 1)
	return in.kick()
}

// answer accepts a record that the site itself asked for, room or not, and counts
// the asynchronous call that it answers as done.
func (in *KInlet[K, V]) answer(k K, v V, h uint64) {
	s := in.site
	s.mu.Lock()
	s.calls.Add(-1)
	if s.finished {
		s.mu.Unlock()
		return
	}
	in.append(k, v, h)
	in.accepted(in, 1)
	in.kick()
}

func (in *KInlet[K, V]) append(k K, v V, h uint64) {
	in.buf.k = append(in.buf.k, k)
	in.buf.v = append(in.buf.v, v)
	if in.hashed {
		in.buf.h = append(in.buf.h, h)
	}
}

// run makes a step with one record, and reports false if the step failed.
func (in *KInlet[K, V]) run(k K, v V, h uint64) (ok bool) {
	s := in.site
	defer s.guard()
	if s.recording != nil {
		s.recordItem(in.op, 1, in.column(k, v, h))
	}
	in.one(k, v, h)
	if !s.bare() {
		s.finish()
	}
	return true
}

func (in *KInlet[K, V]) column(k K, v V, h uint64) columns[K, V] {
	c := columns[K, V]{k: []K{k}, v: []V{v}}
	if in.hashed {
		c.h = []uint64{h}
	}
	return c
}

// one pushes a single record.
func (in *KInlet[K, V]) one(k K, v V, h uint64) {
	in.oneK[0], in.oneV[0], in.oneH[0] = k, v, h
	in.batch = Batch[K, V]{K: in.oneK[:], V: in.oneV[:]}
	if in.hashed {
		in.batch.H = in.oneH[:]
	}
	in.node.push(&in.batch)
	var k0 K
	var v0 V
	in.oneK[0], in.oneV[0] = k0, v0
}

func (in *KInlet[K, V]) swap() {
	in.touched = false
	in.buf, in.taken = columns[K, V]{in.taken.k[:0], in.taken.v[:0], in.taken.h[:0]}, in.buf
	in.off = 0
}

func (in *KInlet[K, V]) pushTaken(n int) {
	in.stretch(n).pushBlocks(in.node, &in.batch)
	in.off += n
}

// stretch returns the next n records of what is taken.
func (in *KInlet[K, V]) stretch(n int) columns[K, V] {
	c := columns[K, V]{k: in.taken.k[in.off : in.off+n], v: in.taken.v[in.off : in.off+n]}
	if len(in.taken.h) > 0 {
		c.h = in.taken.h[in.off : in.off+n]
	}
	return c
}

func (in *KInlet[K, V]) record(n int) {
	in.site.recordItem(in.op, n, in.stretch(n).clone())
}

func (in *KInlet[K, V]) drop() {
	clear(in.taken.k)
	clear(in.taken.v)
}

func (c columns[K, V]) clone() columns[K, V] {
	return columns[K, V]{slices.Clone(c.k), slices.Clone(c.v), slices.Clone(c.h)}
}

// pushBlocks pushes c in batches of a block at most, each through *b.
func (c columns[K, V]) pushBlocks(n *KNode[K, V], b *Batch[K, V]) {
	size := min(block[K](), block[V]())
	for at := 0; at < len(c.k); at += size {
		end := min(at+size, len(c.k))
		*b = Batch[K, V]{K: c.k[at:end], V: c.v[at:end]}
		if len(c.h) > 0 {
			b.H = c.h[at:end]
		}
		n.push(b)
	}
	*b = Batch[K, V]{}
}
