package cow

import "reflect"

// Parts gives access to the entries of a [View] for code that does not know their types,
// such as an encoder.
type Parts interface {
	Len() int
	// Types returns the types of keys and values.
	Types() (k, v reflect.Type)
	// Each calls f with the entries in order, until it returns false.
	Each(f func(k, v any) bool)
	// Fill replaces the view by one with n entries, in the order in which they are set.
	// It calls set for each, with pointers to the key and the value. If set returns
	// false, Fill stops and the view is unchanged.
	Fill(n int, set func(k, v any) bool)
}

// Types returns the types of keys and values.
func (v *View[K, V]) Types() (reflect.Type, reflect.Type) {
	return reflect.TypeFor[K](), reflect.TypeFor[V]()
}

// Each calls f with the entries in order, until it returns false.
func (v *View[K, V]) Each(f func(k, v any) bool) {
	for k, x := range v.All() {
		if !f(k, x) {
			return
		}
	}
}

// Fill replaces the view; see [Parts].
func (v *View[K, V]) Fill(n int, set func(k, v any) bool) {
	m := NewMap[K, V]()
	for range n {
		var k K
		var x V
		if !set(&k, &x) {
			return
		}
		m.Set(k, x)
	}
	*v = m.View()
}
