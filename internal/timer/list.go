package timer

const (
	chunkBits = 8
	chunkLen  = 1 << chunkBits
)

// A node is a timer, or the head of a list.
type node struct {
	at         int64
	next, prev uint32 // 0 for a timer that is not pending
}

// lists are circular doubly linked lists whose nodes are stored in one slab and identified
// by number. Number 0 is no node, numbers 1 to heads are the heads of the lists, and the
// timer with handle h has number h + heads + 1. A slab grows by chunks, so nodes never move
// and growing never stalls.
//
// A chunk without a pending timer is freed, or kept as a spare for the next one that is
// needed. Only few are kept, so an index releases memory when most of its timers are gone.
type lists struct {
	chunks  []*[chunkLen]node
	pending []uint16 // for each chunk, the number of heads and of timers that are pending or being fired
	spare   []*[chunkLen]node
	used    int // number of allocated chunks
	heads   uint32
}

// A chunk takes 4 KiB. One spare chunk is kept for each eight in use, and always up to 1
// MiB: what comes and goes in every step is allocated once.
const (
	sparePart  = 8
	spareLeast = 256
)

func newLists(heads uint32) lists {
	l := lists{heads: heads}
	for i := uint32(1); i <= heads; i++ {
		l.reach(i)
		n := l.node(i)
		n.next, n.prev = i, i
		l.pending[i>>chunkBits]++
	}
	return l
}

func (l *lists) node(i uint32) *node { return &l.chunks[i>>chunkBits][i%chunkLen] }

// reach allocates the chunk of node i if necessary.
func (l *lists) reach(i uint32) {
	c := int(i >> chunkBits)
	for c >= len(l.chunks) {
		l.chunks, l.pending = append(l.chunks, nil), append(l.pending, 0)
	}
	if l.chunks[c] != nil {
		return
	}
	l.used++
	if n := len(l.spare); n > 0 {
		l.chunks[c], l.spare[n-1] = l.spare[n-1], nil
		l.spare = l.spare[:n-1]
		return
	}
	l.chunks[c] = new([chunkLen]node)
}

// enter returns the number of the node for handle h, whose timer becomes pending. Fresh is
// false if it already was.
func (l *lists) enter(h uint32) (i uint32, fresh bool) {
	i = h + l.heads + 1
	if i < h {
		panic("timer: Add: handle too large")
	}
	c := int(i >> chunkBits)
	if c >= len(l.chunks) || l.chunks[c] == nil {
		l.reach(i)
	}
	if l.node(i).next != 0 {
		return i, false
	}
	l.pending[c]++
	return i, true
}

// leave is called once for each time that a timer became pending, when it no longer is and
// its deadline is no longer needed.
func (l *lists) leave(i uint32) {
	c := i >> chunkBits
	if l.pending[c]--; l.pending[c] > 0 {
		return
	}
	if l.used--; len(l.spare) < spareLeast+l.used/sparePart {
		l.spare = append(l.spare, l.chunks[c])
	} else if over := len(l.spare) - spareLeast - l.used/sparePart; over > 0 {
		clear(l.spare[len(l.spare)-over:])
		l.spare = l.spare[:len(l.spare)-over]
	}
	l.chunks[c] = nil
}

// handle returns the handle of timer node i.
func (l *lists) handle(i uint32) uint32 { return i - l.heads - 1 }

// find returns the node of handle h if it is in a list.
func (l *lists) find(h uint32) (i uint32, ok bool) {
	i = h + l.heads + 1
	if i < h || int(i>>chunkBits) >= len(l.chunks) || l.chunks[i>>chunkBits] == nil {
		return 0, false
	}
	return i, l.node(i).next != 0
}

// link inserts node i after node p.
func (l *lists) link(i, p uint32) {
	before := l.node(p)
	n := l.node(i)
	n.prev, n.next = p, before.next
	l.node(before.next).prev = i
	before.next = i
}

// unlink removes node i from its list. If the list is then empty, it returns its head,
// otherwise 0.
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
