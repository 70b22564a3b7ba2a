package dataflow

import (
	"fmt"
	"iter"
)

// An Entry is a key and its value.
type Entry[K comparable, V any] struct {
	Key   K
	Value V
}

// String returns the entry in the form key:value.
func (e Entry[K, V]) String() string { return fmt.Sprintf("%v:%v", e.Key, e.Value) }

// A Pair is two values that were joined.
type Pair[A, B any] struct {
	First  A
	Second B
}

// String returns the pair in the form (first, second).
func (p Pair[A, B]) String() string { return fmt.Sprintf("(%v, %v)", p.First, p.Second) }

func (p Pair[A, B]) parts() (first, second any) { return p.First, p.Second }

// partsOf returns the values of a [Pair].
func partsOf(k any) (first, second any, ok bool) {
	p, ok := k.(interface{ parts() (first, second any) })
	if ok {
		first, second = p.parts()
	}
	return first, second, ok
}

// A Change is a change of a key's entry. Old has no value if the key was absent before, and
// New has none if it is absent now.
type Change[V any] struct{ Old, New Maybe[V] }

// String returns the change in the form old→new.
func (c Change[V]) String() string { return fmt.Sprintf("%v→%v", c.Old, c.New) }

// A Maybe is the outcome of a lookup: a value if OK, else nothing.
type Maybe[T any] struct {
	Value T
	OK    bool
}

// String returns the value, or "none".
func (m Maybe[T]) String() string {
	if !m.OK {
		return "none"
	}
	return fmt.Sprint(m.Value)
}

// A View is a read-only map as it was at one moment. It is safe to keep and safe for
// concurrent use while its location goes on. If keys have an order, it is in order of the
// keys, else in order of appearance. The zero View is empty.
type View[K comparable, V any] view[K, V]

// Get returns the value of k, if the view contains it, in O(log n).
func (v View[K, V]) Get(k K) (V, bool) { return viewOf(v).Get(k) }

// Len returns the number of entries.
func (v View[K, V]) Len() int { return viewOf(v).Len() }

// All iterates over the entries in order.
func (v View[K, V]) All() iter.Seq2[K, V] { return viewOf(v).All() }

// String returns the view in the form {key:value key:value}.
func (v View[K, V]) String() string {
	s := "{"
	for k, x := range v.All() {
		if len(s) > 1 {
			s += " "
		}
		s += fmt.Sprintf("%v:%v", k, x)
	}
	return s + "}"
}
