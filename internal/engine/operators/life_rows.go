package operators

import "github.com/millrace/millrace/internal/engine"

// lifeRows collects entries that appear and keys that are forgotten, in order, until they are pushed.
type lifeRows[K comparable, V any] struct {
	c    engine.Columns[K, V]
	gone []bool // which are forgotten; empty while none is
	b    engine.Batch[K, V]
}

// addRow collects an entry.
func addRow[K comparable, V any](r *lifeRows[K, V], k K, v V, h uint64) {
	if engine.AppendEntry(&r.c, true, k, v, h); len(r.gone) > 0 {
		r.gone = append(r.gone, false)
	}
}

// forgetRow collects a forgotten key.
func forgetRow[K comparable, V any](r *lifeRows[K, V], k K, h uint64) {
	for len(r.gone) < len(r.c.K) {
		r.gone = append(r.gone, false)
	}
	var zero V
	r.c.K, r.c.V, r.c.H, r.gone = append(r.c.K, k), append(r.c.V, zero), append(r.c.H, h), append(r.gone, true)
}

// pushRows pushes what was collected, in blocks, and keeps little memory for it.
func pushRows[K comparable, V any](out *engine.KeyedNode[K, V], r *lifeRows[K, V]) {
	if len(r.c.K) == 0 {
		return
	}
	if size := min(engine.BlockSize[K](), engine.BlockSize[V]()); len(r.gone) == 0 {
		engine.PushEntries(out, r.c, &r.b)
	} else {
		for at := 0; at < len(r.c.K); at += size {
			end := min(at+size, len(r.c.K))
			c := engine.SliceEntries(r.c, at, end)
			r.b = engine.Batch[K, V]{K: c.K, V: c.V, H: c.H, Gone: r.gone[at:end]}
			out.Push(&r.b)
		}
		r.b = engine.Batch[K, V]{}
	}
	if cap(r.c.K) > mostRows {
		r.c, r.gone = engine.Columns[K, V]{}, nil
		return
	}
	engine.ClearEntries(&r.c)
	r.gone = r.gone[:0]
}

// pushRowsAnd pushes what was collected and an entry.
func pushRowsAnd[K comparable, V any](out *engine.KeyedNode[K, V], r *lifeRows[K, V], k K, v V, h uint64) {
	if len(r.c.K) == 0 {
		out.One(k, v, h)
		return
	}
	addRow(r, k, v, h)
	pushRows(out, r)
}

// mostRows is the most rows for which memory is kept between steps.
const mostRows = 1 << 14
