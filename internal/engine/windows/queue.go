package windows

import (
	"cmp"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
)

// A Due is something that waits for a mark: its time, its place in the order of arrival, and what it is. It is exported so that
// it can be saved.
type Due[T any] struct {
	At   int64
	Seq  uint64
	What T
}

// A queue holds what waits for a mark, in order of time and then of arrival. It is a heap.
type queue[T any] struct {
	all *[]Due[T]
	seq *uint64
	tie func(a, b *T) int // orders elements of one time, before arrival does; may be nil
}

func newQueue[T any](m engine.Memory) *queue[T] {
	return &queue[T]{all: state.NewVar[[]Due[T]](m, nil), seq: state.NewVar(m, uint64(0))}
}

func (q *queue[T]) before(a, b *Due[T]) bool {
	switch {
	case a.At != b.At:
		return a.At < b.At
	case q.tie != nil:
		return cmp.Or(q.tie(&a.What, &b.What), cmp.Compare(a.Seq, b.Seq)) < 0
	}
	return a.Seq < b.Seq
}

// add makes x wait until a mark is at or past t.
func (q *queue[T]) add(t int64, x T) {
	*q.seq++
	all := append(*q.all, Due[T]{t, *q.seq, x})
	i := len(all) - 1
	for i > 0 && q.before(&all[i], &all[(i-1)/2]) {
		all[i], all[(i-1)/2] = all[(i-1)/2], all[i]
		i = (i - 1) / 2
	}
	*q.all = all
}

// next returns the time of the first waiting element, or future.
func (q *queue[T]) next() int64 {
	if len(*q.all) == 0 {
		return future
	}
	return (*q.all)[0].At
}

// take removes the first waiting element.
func (q *queue[T]) take() (first Due[T]) {
	all := *q.all
	n := len(all) - 1
	first, all[0] = all[0], all[n]
	all[n] = Due[T]{}
	all = all[:n]
	for i := 0; ; {
		least := i
		for j := 2*i + 1; j <= 2*i+2 && j < n; j++ {
			if q.before(&all[j], &all[least]) {
				least = j
			}
		}
		if least == i {
			break
		}
		all[i], all[least] = all[least], all[i]
		i = least
	}
	if n == 0 && cap(all) > 1024 { // release what a slow source piled up
		all = nil
	}
	*q.all = all
	return first
}

// An agenda holds keys with the times at which they come up. Unlike a queue it is a wheel, not a heap: its cost does not grow
// with the number of keys, and only changes of it are saved.
type agenda[K comparable] struct {
	*state.Pending[K, struct{}]
}

func newAgenda[K comparable](m engine.Memory) agenda[K] {
	return agenda[K]{state.NewPending[K, struct{}](m, false)}
}

// add makes k, whose hash is h, come up at the time t.
func (a agenda[K]) add(t int64, k K, h uint64) { a.Idx.Add(a.Slot(k, struct{}{}, h), t) }

// until calls f with what comes up at or before now.
func (a agenda[K]) until(now int64, f func(k K, h uint64, t int64)) {
	a.Idx.Expire(now, func(slot uint32) {
		t := a.Idx.At(slot)
		k, _, h := a.Take(slot)
		f(k, h, t)
	})
}

// before calls f with what comes up before now.
func (a agenda[K]) before(now int64, f func(k K, h uint64, t int64)) {
	if now > past {
		a.until(now-1, f)
	}
}
