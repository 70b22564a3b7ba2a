package timer

const (
	chunkBits = 10
	chunkLen  = 1 << chunkBits
)

// A node is a timer, or the head of a list.
type node struct {
	at         int64
	next, prev uint32 // 0 for a timer that is not pending
}

// lists are circular doubly linked lists whose nodes lie in one slab, found by
// number. Number 0 is no node, 1 to heads are the heads of the lists, the timer
// with handle h is number h + heads + 1. A slab grows by chunks: nodes never
// move and growing never stalls.
type lists struct {
	chunks []*[chunkLen]node
	heads  uint32
}

func newLists(heads uint32) lists {
	l := lists{heads: heads}
	l.reach(heads)
	for i := uint32(1); i <= heads; i++ {
		n := l.node(i)
		n.next, n.prev = i, i
	}
	return l
}

func (l *lists) node(i uint32) *node { return &l.chunks[i>>chunkBits][i%chunkLen] }

// reach makes the slab long enough to have node i.
func (l *lists) reach(i uint32) {
	for int(i>>chunkBits) >= len(l.chunks) {
		l.chunks = append(l.chunks, new([chunkLen]node))
	}
}

// timer returns the number of the node of handle h, which it makes if need be.
func (l *lists) timer(h uint32) uint32 {
	i := h + l.heads + 1
	if i < h {
		panic("timer: Add: handle too large")
	}
	if int(i>>chunkBits) >= len(l.chunks) {
		l.reach(i)
	}
	return i
}

// handle is the inverse of timer.
func (l *lists) handle(i uint32) uint32 { return i - l.heads - 1 }

// pending returns the node of handle h if it is in a list.
func (l *lists) pending(h uint32) (i uint32, ok bool) {
	i = h + l.heads + 1
	if i < h || int(i>>chunkBits) >= len(l.chunks) {
		return 0, false
	}
	return i, l.node(i).next != 0
}

// link puts node i behind node p.
func (l *lists) link(i, p uint32) {
	before := l.node(p)
	n := l.node(i)
	n.prev, n.next = p, before.next
	l.node(before.next).prev = i
	before.next = i
}

// unlink takes node i out of its list. If the list is empty then, it returns
// its head, else 0.
func (l *lists) unlink(i uint32) (empty uint32) {
	n := l.node(i)
	l.node(n.prev).next = n.next
	l.node(n.next).prev = n.prev
	if n.prev == n.next {
		empty = n.prev
	}
	n.next, n.prev = 0, 0
	return empty
}
