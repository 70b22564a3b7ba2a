package engine

import (
	"context"
	"fmt"
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
	off    int           // taken[:off] has been pushed
	batch  Batch[K, V]
	lanes  map[K]int       // of a driven site: keys in order of their first record
	turns  turns[K]        // sends begun, by key, in builds for the race detector; see turn.go
	next   numbers[K]      // of the numbered sends
	by     numbers[string] // of those that name their sender

	unordered *recordLanes // of an input without order, else nil
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
	s.addInput(op, in, in.node.part)
	if unique {
		in.seen, in.hashed = newSet[K](lasting(op)), true
	}
	s.doors = append(s.doors, &in.door)
	checkType[K](op)
	checkType[V](op)
	op.takes(in.node.counter())
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
		return in.sendOnce(ctx, k, v, nil)
	}
	if !in.shut.Load() && (s.token.take() || s.token.await()) {
		return s.after(in.stepOne(k, v, 0))
	}
	s.mu.Lock()
	how, err := s.g.driver.admit(ctx, &in.door)
	return in.enter(ctx, how, err, k, v, 0)
}

// sendOnce is Send for keys that may come once. The keys are guarded by mu and not by
// the token, because a sender that finds the token held has to be told, too.
// If accepted is not nil, it is called with mu held when the record is accepted and before
// anybody can run it.
func (in *KInlet[K, V]) sendOnce(ctx context.Context, k K, v V, accepted func()) (err error) {
	s := in.site
	h := in.hash.Hash(k)
	how := leave
	if !in.shut.Load() && (s.token.take() || s.token.await()) {
		how = run
	}
	s.mu.Lock()
	if how == leave {
		// Who would have to wait, or is refused, is told first that the key is there.
		if (s.queued >= s.g.set.Queue || in.refuse() != nil) && in.seen.Get(k, h) != nil {
			s.mu.Unlock()
			return ErrDuplicate
		}
		how, err = s.g.driver.admit(ctx, &in.door)
	}
	if how == run || how == leave {
		if _, added := in.seen.Put(k, h); !added {
			if how == run {
				s.g.driver.settle(s, 1)
			} else { // it came while we waited for room
				s.mu.Unlock()
			}
			return ErrDuplicate
		}
		if accepted != nil {
			accepted()
		}
	}
	return in.enter(ctx, how, err, k, v, h)
}

// enter does with a record what its admission says. It is called with mu held and returns
// with mu free. If the caller runs the site and that fails, enter returns why.
func (in *KInlet[K, V]) enter(ctx context.Context, how admission, err error, k K, v V, h uint64) error {
	if how == leave {
		in.buf.append(in.hashed, k, v, h)
		in.accepted(in, 1)
		return in.kick()
	}
	in.site.mu.Unlock()
	switch how {
	case run:
		err = in.site.after(in.stepOne(k, v, h))
	case elsewhere:
		err = in.sendRemote(ctx, k, v)
	}
	return err
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
	in.buf.append(in.hashed, k, v, h)
	in.accepted(in, 1)
	in.kick()
}

func (in *KInlet[K, V]) takeAll() { in.buf, in.taken = in.taken, in.buf }

func (in *KInlet[K, V]) takeAt(i int, again bool) {
	var h uint64
	if in.hashed {
		h = in.buf.h[i]
	}
	in.taken.append(in.hashed, in.buf.k[i], in.buf.v[i], h)
	if !again {
		in.unordered.took(i)
		in.buf.delete(i)
	}
}

func (in *KInlet[K, V]) say(i int) string { return fmt.Sprintf("%v:%v", in.buf.k[i], in.buf.v[i]) }

func (in *KInlet[K, V]) copyTaken(at, n int) any { return in.span(in.off+at, n).clone() }

// span returns n records of what is taken.
func (in *KInlet[K, V]) span(at, n int) columns[K, V] {
	c := columns[K, V]{k: in.taken.k[at : at+n], v: in.taken.v[at : at+n]}
	if len(in.taken.h) > 0 {
		c.h = in.taken.h[at : at+n]
	}
	return c
}

func (in *KInlet[K, V]) load(records any) error {
	c, ok := records.(columns[K, V])
	if !ok {
		return fmt.Errorf("%s takes %T, the recording has %T", in.op, c, records)
	}
	t := &in.taken
	t.k, t.v, t.h = append(t.k, c.k...), append(t.v, c.v...), append(t.h, c.h...)
	return nil
}

// append adds a record, with its hash if records have one.
func (c *columns[K, V]) append(hashed bool, k K, v V, h uint64) {
	c.k, c.v = append(c.k, k), append(c.v, v)
	if hashed {
		c.h = append(c.h, h)
	}
}

// delete removes the record with index i.
func (c *columns[K, V]) delete(i int) {
	c.k, c.v = slices.Delete(c.k, i, i+1), slices.Delete(c.v, i, i+1)
	if len(c.h) > 0 {
		c.h = slices.Delete(c.h, i, i+1)
	}
}

// clear removes all records and keeps the memory.
func (c *columns[K, V]) clear() {
	clear(c.k)
	clear(c.v)
	*c = columns[K, V]{c.k[:0], c.v[:0], c.h[:0]}
}

func (c columns[K, V]) clone() columns[K, V] {
	return columns[K, V]{slices.Clone(c.k), slices.Clone(c.v), slices.Clone(c.h)}
}

// pushBlocks pushes c in batches of a block at most, each through *b.
func (c columns[K, V]) pushBlocks(n *KNode[K, V], b *Batch[K, V]) {
	if len(c.k) == 1 {
		h := uint64(0)
		if len(c.h) > 0 {
			h = c.h[0]
		}
		n.one(c.k[0], c.v[0], h)
		return
	}
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

// push is [Inlet.push] for keyed data.
func (in *KInlet[K, V]) push(n int) {
	in.span(in.off, n).pushBlocks(in.node, &in.batch)
	if in.off += n; in.off == len(in.taken.k) {
		in.taken.clear()
		in.off = 0
	}
}

// stepOne makes the step of one entry; see [stepEntry].
func (in *KInlet[K, V]) stepOne(k K, v V, h uint64) bool { return stepEntry(in.node, k, v, h, in) }

// planOf takes an entry and returns the plan that takes it.
func (in *KInlet[K, V]) planOf(k K, v V, h uint64) *Plan {
	in.taken.append(in.hashed, k, v, h)
	return in.all(1)
}
