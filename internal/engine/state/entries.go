package state

import (
	"reflect"

	"github.com/millrace/millrace/internal/cow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/keyed"
)

// This file finds what is held for a key, for observers of a running flow; see [engine.Keyed]. The location makes no step
// meanwhile, so nothing here iterates over more than mostSearched of what it remembers.

// mostSearched is how many timers are searched at most to find those of a key, and how many values of a list are returned at
// most.
const mostSearched = 1 << 14

func (s *tableState) KeyType() reflect.Type { return s.keyType }

func (s *tableState) ValueType() reflect.Type { return s.valType }

func (s *tableState) Find(key any) (e engine.Entry, ok bool) {
	i, ok := s.table.find(key)
	if !ok {
		return e, false
	}
	return s.table.entry(i, !s.set)
}

func (s *tableState) Entries(from uint32, do func(i uint32, e engine.Entry) bool) {
	next, _, _ := s.numbers.Next()
	for i := from; i < next; i++ {
		if e, ok := s.table.entry(i, !s.set); ok && !do(i, e) {
			return
		}
	}
}

// find returns the number of a key of any type.
func find[K comparable, V any](t *keyed.Table[K, V], key any) (i uint32, v *V, ok bool) {
	k, ok := key.(K)
	if !ok {
		return 0, nil, false
	}
	if check := keyed.CheckOf[K](); check != nil {
		if _, err := check(k); err != nil {
			return 0, nil, false
		}
	}
	i, v = t.GetIndex(k, engine.Hasher[K]().Hash(k))
	return i, v, v != nil
}

func (s *viewState[K, V]) KeyType() reflect.Type { return reflect.TypeFor[K]() }

func (s *viewState[K, V]) ValueType() reflect.Type { return reflect.TypeFor[V]() }

func (s *viewState[K, V]) Find(key any) (e engine.Entry, ok bool) {
	k, ok := key.(K)
	if !ok {
		return e, false
	}
	v, ok := s.m.Get(k)
	return engine.Entry{Key: k, Value: &v}, ok
}

// Entries numbers entries by their position in the order of the map, so the numbers shift when others come or go.
func (s *viewState[K, V]) Entries(from uint32, do func(i uint32, e engine.Entry) bool) {
	i := uint32(0)
	for k, v := range all(s.m) {
		if i >= from && !do(i, engine.Entry{Key: k, Value: &v}) {
			return
		}
		i++
	}
}

func all[K comparable, V any](m *cow.Map[K, V]) func(yield func(K, V) bool) { return m.View().All() }

func (s *timersState[K, V]) KeyType() reflect.Type { return reflect.TypeFor[K]() }

func (s *timersState[K, V]) ValueType() reflect.Type { return reflect.TypeFor[V]() }

func (s *timersState[K, V]) Find(key any) (e engine.Entry, ok bool) {
	k, ok := key.(K)
	if !ok || s.p.Len() > mostSearched {
		return e, false
	}
	found := false
	s.p.Idx.Each(func(slot uint32, at int64) {
		if !found && s.p.k[slot] == k {
			e, found = engine.Entry{Key: k, Value: &s.p.v[slot], Due: at, Timed: true}, true
		}
	})
	return e, found
}

func (s *timersState[K, V]) Entries(from uint32, do func(i uint32, e engine.Entry) bool) {
	if s.p.Len() > mostSearched {
		return
	}
	due := make(map[uint32]int64, s.p.Idx.Len())
	s.p.Idx.Each(func(slot uint32, at int64) { due[slot] = at })
	for i := from; i < uint32(len(s.p.k)); i++ {
		if at, ok := due[i]; ok && !do(i, engine.Entry{Key: s.p.k[i], Value: &s.p.v[i], Due: at, Timed: true}) {
			return
		}
	}
}

func (s *deadlinesState[K, V]) KeyType() reflect.Type { return reflect.TypeFor[K]() }

func (s *deadlinesState[K, V]) ValueType() reflect.Type { return nil }

// due returns when the timer of an entry fires, if it has one.
func (s *deadlinesState[K, V]) due(entry uint32) (at int64, ok bool) {
	switch {
	case s.every:
		return s.t.At(entry), true
	case s.t.Len() > mostSearched:
		return 0, false
	}
	s.t.Each(func(i uint32, is int64) {
		if i == entry {
			at, ok = is, true
		}
	})
	return at, ok
}

func (s *deadlinesState[K, V]) Find(key any) (e engine.Entry, ok bool) {
	i, _, ok := find(s.table, key)
	if !ok {
		return e, false
	}
	at, ok := s.due(i)
	return engine.Entry{Key: key, Due: at, Timed: true}, ok
}

func (s *deadlinesState[K, V]) Entries(from uint32, do func(i uint32, e engine.Entry) bool) {
	if s.t.Len() > mostSearched {
		return
	}
	due := make(map[uint32]int64, s.t.Len())
	s.t.Each(func(i uint32, at int64) { due[i] = at })
	next, _, _ := s.table.Numbers().Next()
	for i := from; i < next; i++ {
		at, ok := due[i]
		k, _, lives := s.table.At(i)
		if ok && lives && !do(i, engine.Entry{Key: k, Due: at, Timed: true}) {
			return
		}
	}
}

func (s *itemsState[K, V]) KeyType() reflect.Type { return reflect.TypeFor[K]() }

func (s *itemsState[K, V]) ValueType() reflect.Type { return nil }

func (s *itemsState[K, V]) Find(key any) (e engine.Entry, ok bool) {
	_, l, ok := find(s.l.Table, key)
	if !ok {
		return e, false
	}
	return engine.Entry{Key: key, Value: s.values(l)}, true
}

// values returns the values of a list, up to mostSearched.
func (s *itemsState[K, V]) values(l *list) (values []V) {
	for i := l.first; i != 0 && len(values) < mostSearched; i = s.l.Item(i).Next {
		values = append(values, s.l.Item(i).V)
	}
	return values
}

func (s *itemsState[K, V]) Entries(from uint32, do func(i uint32, e engine.Entry) bool) {
	next, _, _ := s.l.Table.Numbers().Next()
	for i := from; i < next; i++ {
		if k, l, ok := s.l.Table.At(i); ok && !do(i, engine.Entry{Key: k, Value: s.values(l)}) {
			return
		}
	}
}

// KeyType returns nil: the keys of lists are found with their values.
func (s keysState) KeyType() reflect.Type { return nil }

func (s keysState) ValueType() reflect.Type { return nil }

// KeyType returns nil: the keys are found in the table.
func (s calendarState[K, V]) KeyType() reflect.Type { return nil }

func (s calendarState[K, V]) ValueType() reflect.Type { return nil }
