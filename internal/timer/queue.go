package timer

import (
	"cmp"
	"slices"
)

// patience is the number of timers that a queue passes to find the place of a
// new one.
const patience = 32

// orderKeep is the number of elements up to which the memory for sorting is
// kept.
const orderKeep = 1 << 18

// A queue is a list in the order of deadline and insertion, for timers that are
// set nearly in that order. It tolerates any other order.
//
// It maintains:
//
//  1. unless mixed, the list is sorted by deadline,
//  2. timers with equal deadlines are in order of insertion.
type queue struct {
	head  uint32
	mixed bool
	order []uint32 // memory for sort
}

// add links node i, whose deadline is set, into q.
func (q *queue) add(l *lists, i uint32) {
	last := l.node(q.head).prev
	p := last
	if !q.mixed {
		at := l.node(i).at
		for n := 0; p != q.head && l.node(p).at > at; n++ {
			if n == patience {
				q.mixed = true
				p = last
				break
			}
			p = l.node(p).prev
		}
	}
	l.link(i, p)
}

// first returns the node that comes first, if there is one.
func (q *queue) first(l *lists) (i uint32, ok bool) {
	if q.mixed {
		q.sort(l)
	}
	i = l.node(q.head).next
	return i, i != q.head
}

func (q *queue) sort(l *lists) {
	q.order = q.order[:0]
	for i := l.node(q.head).next; i != q.head; i = l.node(i).next {
		q.order = append(q.order, i)
	}
	slices.SortStableFunc(q.order, func(a, b uint32) int {
		return cmp.Compare(l.node(a).at, l.node(b).at)
	})
	p := q.head
	for _, i := range q.order {
		l.node(p).next = i
		l.node(i).prev = p
		p = i
	}
	l.node(p).next = q.head
	l.node(q.head).prev = p
	q.mixed = false
	if cap(q.order) > orderKeep {
		q.order = nil
	}
}
