package windows

import (
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/mark"
	"github.com/millrace/millrace/internal/engine/state"
)

// AsOf returns each event of left, in the order of their times, with the newest event of right
// that is not after it, or nil.
func AsOf[K comparable, V, W, U any](
	left *engine.KeyedNode[K, V], right *engine.KeyedNode[K, W], op *engine.Op, leftAt func(*V) int64, rightAt func(*W) int64, result func(*V, *W) U,
) *engine.KeyedNode[K, U] {
	leftMark, rightMark := follow(op, &left.Head), follow(op, &right.Head)
	h := engine.Derived(op, left, right)
	h.Mark = own(op, leftMark, rightMark)
	out := engine.NewKeyedNode[K, U](h)
	m := engine.Remember(op, &h)
	lefts, rights := newQueue[Row[K, V]](m), newQueue[Row[K, W]](m)
	newest := state.NewTable(m, state.Plain[K], state.Plain[W])
	hash := engine.Hasher[K]()
	var c engine.Columns[K, U]
	var b engine.Batch[K, U]
	op.Holds(&c)
	op.Scratch(&b)
	waits(left, op, leftAt, leftMark, lefts)
	waits(right, op, rightAt, rightMark, rights)
	mark.Least(leftMark, rightMark).Follow(func(now int64) {
		op.Loc.At = op.Index
		for {
			l, r := lefts.next(), rights.next()
			if min(l, r) >= now {
				break
			}
			if r <= l {
				x := rights.take().What
				*first(newest.Put(x.Key, hash.Hash(x.Key))) = x.Event
				continue
			}
			x := lefts.take().What
			kh := hash.Hash(x.Key)
			engine.AppendEntry(&c, true, x.Key, result(&x.Event, newest.Get(x.Key, kh)), kh)
		}
		engine.PushEntries(out, c, &b)
		engine.ClearEntries(&c)
		h.Mark.Advance(now)
	})
	return out
}

func first[T any](x T, _ bool) T { return x }
