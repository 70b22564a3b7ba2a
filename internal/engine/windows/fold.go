package windows

import (
	"github.com/millrace/millrace/internal/engine"
)

// results collects entries of closed and open spans under keys W, and pushes them.
type results[W comparable, A any] struct {
	closed, open *engine.KeyedNode[W, A]
	done, news   engine.Columns[W, A]
	gone         []bool
	b            engine.Batch[W, A]
	shows        bool // open has consumers
}

func newResults[W comparable, A any](op *engine.Op, in *engine.Head) (r *results[W, A], closed func(now int64)) {
	h := engine.Derived(op, in)
	m := own(op, in.Mark)
	h.Mark, m.Closes = m, true
	r = &results[W, A]{closed: engine.NewKeyedNode[W, A](h)}
	h.Mark = nil
	r.open = engine.NewKeyedNode[W, A](h)
	r.open.Revises = true
	op.Holds(&r.done, &r.news, &r.gone)
	op.Scratch(&r.b)
	op.Loc.Compiled(func() { r.shows = len(r.open.Outs) > 0 })
	return r, m.Advance
}

// changed records a new version of an open entry.
func (r *results[W, A]) changed(w W, acc A) {
	r.news.K, r.news.V, r.gone = append(r.news.K, w), append(r.news.V, acc), append(r.gone, false)
}

// left records that an entry is no longer open.
func (r *results[W, A]) left(w W) {
	var none A
	r.news.K, r.news.V, r.gone = append(r.news.K, w), append(r.news.V, none), append(r.gone, true)
}

// close records the last version of an entry.
func (r *results[W, A]) close(w W, acc A) {
	r.done.K, r.done.V = append(r.done.K, w), append(r.done.V, acc)
	if r.shows {
		r.left(w)
	}
}

// show pushes the changes of open entries.
func (r *results[W, A]) show() {
	if len(r.news.K) == 0 {
		return
	}
	size := min(engine.BlockSize[W](), engine.BlockSize[A]())
	for at := 0; at < len(r.news.K); at += size {
		end := min(at+size, len(r.news.K))
		r.b = engine.Batch[W, A]{K: r.news.K[at:end], V: r.news.V[at:end], Gone: r.gone[at:end]}
		r.open.Push(&r.b)
	}
	r.b = engine.Batch[W, A]{}
	clear(r.news.K)
	clear(r.news.V)
	r.news.K, r.news.V, r.gone = r.news.K[:0], r.news.V[:0], r.gone[:0]
}

// push pushes what was closed, after the change that it is no longer open.
func (r *results[W, A]) push() {
	r.show()
	if len(r.done.K) == 0 {
		return
	}
	engine.PushEntries(r.closed, r.done, &r.b)
	clear(r.done.K)
	clear(r.done.V)
	r.done.K, r.done.V = r.done.K[:0], r.done.V[:0]
}

// Fold folds the events of each key in each span of a shape. A closed span is given once and forgotten.
func Fold[K comparable, E, A any, W comparable](
	in *engine.KeyedNode[K, E], op *engine.Op, at func(*E) int64, shape Shape, init func() A, step func(*A, *E), key func(k K, from, to int64) W,
) (closed, open *engine.KeyedNode[W, A]) {
	marks := follow(op, &in.Head)
	r, advance := newResults[W, A](op, &in.Head)
	p := newPanes[K, A](engine.Remember(op, &r.closed.Head))
	hash := engine.Hasher[K]()
	single := shape.one()
	var hs []uint64
	var cur K
	var buf E
	var from, to int64 // a span, as a guess
	op.Scratch(&hs, &cur, &buf, &from, &to)
	op.Key = func() any { return cur }
	put := func(k K, h uint64, e *E, m int64) {
		cur = k
		t := at(e)
		if t < m || t == future {
			late(t, m)
		}
		if single {
			if t < from || t >= to {
				from, to = shape.last(t)
			}
			acc, added := p.at(from, to, k, h)
			if added {
				*acc = init()
			}
			step(acc, e)
			if r.shows {
				r.changed(key(k, from, to), *acc)
			}
			return
		}
		for from, to := shape.last(t); to > t; from, to = from-shape.Step, add(from-shape.Step, shape.Size) {
			acc, added := p.at(from, to, k, h)
			if added {
				*acc = init()
			}
			step(acc, e)
			if r.shows {
				r.changed(key(k, from, to), *acc)
			}
			if from < past+shape.Step {
				break
			}
		}
	}
	in.To(func(b *engine.Batch[K, E]) {
		op.Loc.At = op.Index
		hs := b.Hashes(hash, &hs)
		p.tables[p.last].Touch(hs)
		m := marks.Now()
		for i, k := range b.K {
			put(k, hs[i], &b.V[i], m)
		}
		r.show()
	}).One = func(k K, e E, h uint64) {
		op.Loc.At = op.Index
		if h == 0 {
			h = hash.Hash(k)
		}
		buf = e
		put(k, h, &buf, marks.Now())
		r.show()
	}
	marks.Follow(func(now int64) {
		if now < p.soon { // nothing ends
			advance(now)
			return
		}
		op.Loc.At = op.Index
		p.close(now, func(x Pane, keys func(func(K, *A))) {
			keys(func(k K, acc *A) { r.close(key(k, x.From, x.To), *acc) })
		})
		r.push()
		advance(now)
	})
	return r.closed, r.open
}
