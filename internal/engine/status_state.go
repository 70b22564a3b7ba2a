package engine

import "unsafe"

// How much each kind of state is. All of it is known without going through it, since the
// location stands still meanwhile.

func (s tableState[K, V]) size() (int, uint64) { return (*s.table).Len(), (*s.table).Bytes() }

func (s varState[T]) size() (int, uint64) { return 0, uint64(unsafe.Sizeof(*s.p)) }

func (s cellState[T]) size() (int, uint64) { return 0, uint64(unsafe.Sizeof(s.c.value)) }

func (s listsState[K, V]) size() (int, uint64) {
	var items [listBlock]listItem[V]
	return s.l.table.Len(), s.l.table.Bytes() + uint64(len(s.l.blocks))*uint64(unsafe.Sizeof(items))
}

func (s timersState[K, V]) size() (int, uint64) {
	var k K
	var v V
	return s.p.idx.Len(), uint64(cap(s.p.k))*uint64(unsafe.Sizeof(k)) + uint64(cap(s.p.v))*uint64(unsafe.Sizeof(v)) + 8*uint64(cap(s.p.h))
}

// size counts nothing: each timer is that of an entry in the table.
func (s deadlinesState[K, V]) size() (int, uint64) { return 0, 0 }

func (s viewState[K, V]) size() (int, uint64) { return s.m.Len(), 0 }

func (s sequenceState[C]) size() (int, uint64) { return s.set.Clients(), s.set.Bytes() }

func (s unreadState[T]) size() (int, uint64) {
	var x T
	return len(s.out.buf), uint64(cap(s.out.buf)) * uint64(unsafe.Sizeof(x))
}

func (b *sending) size() (n int, bytes uint64) {
	return len(b.buf), uint64(cap(b.buf)) * uint64(unsafe.Sizeof(sent{}))
}

// How many timers of each operator are set.

func (a *after[K, V]) running() int    { return a.idx.Len() }
func (t *expiring[K, V]) running() int { return t.idx.Len() }

func (t *interval) running() int    { return oneIf(t.next()) }
func (m *retained[K]) running() int { return oneIf(m.next()) }

func oneIf(_ int64, ok bool) int {
	if ok {
		return 1
	}
	return 0
}
