package windows

import (
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/mark"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// A Half is an event of one side of a join.
type Half[E any] struct {
	At     int64
	Event  E
	Paired bool
}

// Halves are the events of a key that may still get a pair. It is exported so that it can be
// saved.
type Halves[V, W any] struct {
	Left  []Half[V]
	Right []Half[W]
}

// A Pairing says what a join makes of its events.
type Pairing[V, W, U any] struct {
	Before, After int64                               // which times of the right side belong to a time of the left
	Both          func(left *V, right *W, at int64) U // result of a pair, at the later time
	Alone         func(left *V, at int64) U           // result of a left event without a pair; nil if there is none
}

// joins is the state of a Join.
type joins[K comparable, V, W, U any] struct {
	Pairing[V, W, U]
	table       *keyed.Table[K, Halves[V, W]]
	left, right agenda[K] // one for each event: when it may be forgotten
	c           engine.Columns[K, U]
}

// Join returns the pairs of left and right events whose times are near each other and, if p.Alone is not nil, the left events
// without a pair.
func Join[K comparable, V, W, U any](
	left *engine.KeyedNode[K, V], right *engine.KeyedNode[K, W], op *engine.Op, leftAt func(*V) int64, rightAt func(*W) int64, p Pairing[V, W, U],
) *engine.KeyedNode[K, U] {
	leftMark, rightMark := follow(op, &left.Head), follow(op, &right.Head)
	h := engine.Derived(op, left, right)
	h.Mark = own(op, leftMark, rightMark)
	out := engine.NewKeyedNode[K, U](h)
	m := engine.Remember(op, &h)
	j := &joins[K, V, W, U]{Pairing: p, table: state.NewTable(m, state.Plain[K], state.Plain[Halves[V, W]]), left: newAgenda[K](m), right: newAgenda[K](m)}
	hash := engine.Hasher[K]()
	var leftHash, rightHash []uint64 // two, since other consumers read a batch with its hashes
	var b engine.Batch[K, U]
	op.Scratch(&leftHash, &rightHash, &b)
	op.Holds(&j.c)
	push := func() {
		engine.PushEntries(out, j.c, &b)
		engine.ClearEntries(&j.c)
	}
	left.To(func(b *engine.Batch[K, V]) {
		op.Loc.At = op.Index
		hs, m := b.Hashes(hash, &leftHash), leftMark.Now()
		j.table.Touch(hs)
		for i, k := range b.K {
			t := leftAt(&b.V[i])
			if t < m || t == future {
				late(t, m)
			}
			x, _ := j.table.Put(k, hs[i])
			e := Half[V]{At: t, Event: b.V[i]}
			for y := range x.Right {
				if r := &x.Right[y]; j.near(t, r.At) {
					e.Paired, r.Paired = true, true
					engine.AppendEntry(&j.c, true, k, p.Both(&e.Event, &r.Event, max(t, r.At)), hs[i])
				}
			}
			x.Left = append(x.Left, e)
			j.left.add(over(t, p.After), k, hs[i])
		}
		push()
	})
	right.To(func(b *engine.Batch[K, W]) {
		op.Loc.At = op.Index
		hs, m := b.Hashes(hash, &rightHash), rightMark.Now()
		j.table.Touch(hs)
		for i, k := range b.K {
			t := rightAt(&b.V[i])
			if t < m || t == future {
				late(t, m)
			}
			x, _ := j.table.Put(k, hs[i])
			e := Half[W]{At: t, Event: b.V[i]}
			for y := range x.Left {
				if l := &x.Left[y]; j.near(l.At, t) {
					e.Paired, l.Paired = true, true
					engine.AppendEntry(&j.c, true, k, p.Both(&l.Event, &e.Event, max(t, l.At)), hs[i])
				}
			}
			x.Right = append(x.Right, e)
			j.right.add(over(t, p.Before), k, hs[i])
		}
		push()
	})
	both := mark.Least(leftMark, rightMark)
	forget := func(int64) {
		op.Loc.At = op.Index
		now := both.Now()
		until := rightMark.Beside(leftMark) // what only the other side could still need goes by the other mark
		if p.Alone != nil {
			until = now // but an event without a pair is given before the mark of the result passes it
		}
		j.left.before(until, j.forgetLeft)
		j.right.before(leftMark.Beside(rightMark), j.forgetRight)
		push()
		h.Mark.Advance(now)
	}
	leftMark.Follow(forget)
	if rightMark != leftMark {
		rightMark.Follow(forget)
	}
	return out
}

// near reports whether a right event belongs to a left one.
func (j *joins[K, V, W, U]) near(left, right int64) bool {
	return add(right, j.Before) >= left && right <= add(left, j.After)
}

// forgetLeft removes the first left event that nothing joins after the time t.
func (j *joins[K, V, W, U]) forgetLeft(k K, h uint64, t int64) {
	x, _ := j.table.Put(k, h)
	i := 0
	for over(x.Left[i].At, j.After) != t {
		i++
	}
	if l := &x.Left[i]; j.Alone != nil && !l.Paired {
		engine.AppendEntry(&j.c, true, k, j.Alone(&l.Event, t), h)
	}
	x.Left = remove(x.Left, i)
	j.tidy(k, h, x)
}

func (j *joins[K, V, W, U]) forgetRight(k K, h uint64, t int64) {
	x, _ := j.table.Put(k, h)
	i := 0
	for over(x.Right[i].At, j.Before) != t {
		i++
	}
	x.Right = remove(x.Right, i)
	j.tidy(k, h, x)
}

// tidy removes a key without events.
func (j *joins[K, V, W, U]) tidy(k K, h uint64, x *Halves[V, W]) {
	if len(x.Left)+len(x.Right) == 0 {
		j.table.Delete(k, h)
	}
}

func remove[T any](xs []T, i int) []T {
	var zero T
	n := copy(xs[i:], xs[i+1:])
	xs[i+n] = zero
	return xs[:i+n]
}
