package timer

import (
	"cmp"
	"slices"
)

// Each calls do with the pending timers in the order in which they will fire. No
// timer may be set or cancelled in the meantime.
func (f *FIFO) Each(do func(h uint32, at int64)) { f.queue.each(&f.lists, do) }

// Each calls do with the pending timers in the order in which they will fire. No
// timer may be set or cancelled in the meantime. It takes time and memory for all of
// them.
func (w *Wheel) Each(do func(h uint32, at int64)) {
	w.late.each(&w.lists, do)
	// Timers of one deadline are all in one bucket, in order of insertion.
	var all []uint32
	for first := uint32(1); first < late; first++ {
		for i := w.lists.node(first).next; i != first; i = w.lists.node(i).next {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(a, b uint32) int {
		return cmp.Compare(w.lists.node(a).at, w.lists.node(b).at)
	})
	for _, i := range all {
		do(w.lists.handle(i), w.lists.node(i).at)
	}
}

func (q *queue) each(l *lists, do func(h uint32, at int64)) {
	for i, ok := q.first(l); ok && i != q.head; i = l.node(i).next {
		do(l.handle(i), l.node(i).at)
	}
}
