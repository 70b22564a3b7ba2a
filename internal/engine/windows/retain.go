package windows

import "github.com/millrace/millrace/internal/engine"

// Retain returns the entries of in, and forgets each when the mark is more than after past the end of its span. At the end of time
// nothing is forgotten: what exists then is the result.
func Retain[W comparable, A any](in *engine.KeyedNode[W, A], op *engine.Op, end func(W) int64, after int64) *engine.KeyedNode[W, A] {
	marks := follow(op, &in.Head)
	h := engine.Derived(op, in)
	out := engine.NewKeyedNode[W, A](h)
	out.Revises, out.Forgets = true, true
	due := newAgenda[W](engine.Remember(op, &h))
	hash := engine.Hasher[W]()
	var hs []uint64
	var c engine.Columns[W, A]
	var gone []bool
	op.Holds(&c)
	op.Scratch(&hs, &gone)
	in.To(func(b *engine.Batch[W, A]) {
		for i, h := range b.Hashes(hash, &hs) {
			due.add(add(end(b.K[i]), after), b.K[i], h)
		}
		out.Push(b)
	}).One = func(w W, a A, h uint64) {
		if h == 0 {
			h = hash.Hash(w)
		}
		due.add(add(end(w), after), w, h)
		out.One(w, a, h)
	}
	marks.Follow(func(now int64) {
		op.Loc.At = op.Index
		if now == future {
			return
		}
		due.before(now, func(w W, h uint64, _ int64) {
			var none A
			c.K, c.V, c.H = append(c.K, w), append(c.V, none), append(c.H, h)
		})
		if n := len(c.K); n > 0 {
			for gone = engine.Resize(gone, n)[:0]; len(gone) < n; {
				gone = append(gone, true)
			}
			out.Push(&engine.Batch[W, A]{K: c.K, V: c.V, H: c.H, Gone: gone})
			engine.ClearEntries(&c)
		}
	})
	return out
}
