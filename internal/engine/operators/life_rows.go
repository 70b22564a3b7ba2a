package operators

import "github.com/millrace/millrace/internal/engine"

// lifeRows collects entries that appear and keys that are forgotten, in order, until they are pushed.
type lifeRows[K comparable, V any] struct {
	c    engine.Columns[K, V]
	gone []bool // which are forgotten; empty while none is
	b    engine.Batch[K, V]
}

// add collects an entry.
func (r *lifeRows[K, V]) add(k K, v V, h uint64) {
	if r.c.Append(true, k, v, h); len(r.gone) > 0 {
		r.gone = append(r.gone, false)
	}
}

// forget collects a forgotten key.
func (r *lifeRows[K, V]) forget(k K, h uint64) {
	for len(r.gone) < len(r.c.K) {
		r.gone = append(r.gone, false)
	}
	var zero V
	r.c.K, r.c.V, r.c.H, r.gone = append(r.c.K, k), append(r.c.V, zero), append(r.c.H, h), append(r.gone, true)
}

// pushTo pushes what was collected, in blocks, and keeps little memory for it.
func (r *lifeRows[K, V]) pushTo(out *engine.KeyedNode[K, V]) {
	if len(r.c.K) == 0 {
		return
	}
	if size := min(engine.BlockSize[K](), engine.BlockSize[V]()); len(r.gone) == 0 {
		r.c.PushBlocks(out, &r.b)
	} else {
		for at := 0; at < len(r.c.K); at += size {
			end := min(at+size, len(r.c.K))
			c := r.c.Slice(at, end)
			r.b = engine.Batch[K, V]{K: c.K, V: c.V, H: c.H, Gone: r.gone[at:end]}
			out.Push(&r.b)
		}
		r.b = engine.Batch[K, V]{}
	}
	if cap(r.c.K) > mostRows {
		r.c, r.gone = engine.Columns[K, V]{}, nil
		return
	}
	r.c.Clear()
	r.gone = r.gone[:0]
}

// pushWith pushes what was collected and an entry.
func (r *lifeRows[K, V]) pushWith(out *engine.KeyedNode[K, V], k K, v V, h uint64) {
	if len(r.c.K) == 0 {
		out.One(k, v, h)
		return
	}
	r.add(k, v, h)
	r.pushTo(out)
}

// mostRows is the most rows for which memory is kept between steps.
const mostRows = 1 << 14
