package state

import "unsafe"

// The size of each kind of state is known without iterating over it, since the location makes no step meanwhile.

func (s *tableState) Size() (int, uint64) { return s.numbers.Len(), s.table.bytes() }

func (s varState[T]) Size() (int, uint64) { return 0, uint64(unsafe.Sizeof(*s.p)) }

func (s *itemsState[K, V]) Size() (int, uint64) {
	var items [listBlock]listItem[V]
	return 0, uint64(len(s.l.blocks)) * uint64(unsafe.Sizeof(items))
}

func (s *timersState[K, V]) Size() (int, uint64) {
	var k K
	var v V
	return s.p.Len(), uint64(cap(s.p.k))*uint64(unsafe.Sizeof(k)) + uint64(cap(s.p.v))*uint64(unsafe.Sizeof(v)) + 8*uint64(cap(s.p.h))
}

// Size counts nothing: each timer belongs to an entry that the table counts.
func (s *deadlinesState[K, V]) Size() (int, uint64) { return 0, 0 }

func (s *viewState[K, V]) Size() (int, uint64) { return s.m.Len(), 0 }

// Size counts nothing, for the same reason.
func (s calendarState[K, V]) Size() (int, uint64) { return 0, 0 }
