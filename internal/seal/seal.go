// Package seal makes types that only the packages of this module can open and make.
//
// The bound, order and retries of a collection are promises. If any package could
// wrap a node in any type, the promises would be worth nothing; if none could, every
// operator would have to live in package dataflow. So the public types are declared
// from types of this package, which another module can neither import nor spell:
//
//	type stream[T, L, B, O, R any] = seal.Type[func(T, L, B, O, R), engine.HeldNode[T]]
//
//	type Stream[T any, L Location, B bounds.Stream, O Order, R Retries] stream[T, L, B, O, R]
//
// A [Type] is an unnamed struct type. The language lets a value of the public type
// pass for one of its Type, and back, without a conversion and in type inference; the
// mark keeps two Types apart, and with them the public types. All of that happens at
// compile time: an engine.HeldNode[T] is an interface that only *engine.Node[T] implements, so a
// wrong node does not compile. No exported function, method or field of a public
// package mentions this package, so there is nothing that inference could find a
// zero value of.
//
// In each package, node.go is the only file that uses this one; in package engine it is
// collection.go.
package seal

import "reflect"

// A Type is the type that a public type is declared from. It holds an N. Two Types
// with different marks do not convert to each other.
//
// It has no methods: a program has many collections with different types, and the compiler and the
// linker keep a promoted method of each, with wrappers and names that are longer than all the rest.
type Type[Mark, N any] = struct {
	_     [0]Mark
	value N
}

// An Open is a Type that [Pointer], [Untyped] and [Holds] know, also where it is embedded.
type Open[Mark, N any] = struct {
	_ [0]Mark
	field[N]
}

// A Field is embedded in a public type that has other fields as well.
type Field[N any] = field[N]

// A field has unexported methods only, which are promoted to every type that embeds
// it and can be called by this package only.
type field[N any] struct{ value N }

func (f *field[N]) pointer() *N  { return &f.value }
func (f *field[N]) untyped() any { return &f.value }

// Make returns a value of a Type that holds n.
func Make[Mark, N any](n N) (t Type[Mark, N]) {
	t.value = n
	return t
}

// FieldOf returns a field that holds n.
func FieldOf[N any](n N) Field[N] { return field[N]{n} }

// Value returns what a value of a Type holds.
func Value[Mark, N any](t Type[Mark, N]) N { return t.value }

// MakeOpen returns a value of an Open that holds n.
func MakeOpen[Mark, N any](n N) (t Open[Mark, N]) {
	t.value = n
	return t
}

// OpenValue returns what a value of an Open holds.
func OpenValue[Mark, N any](t Open[Mark, N]) N { return t.value }

// Within returns a pointer to what *t holds, where t is a pointer to a Type of which only the program
// that runs knows what it holds.
func Within(t any) (pointer any) {
	v := reflect.ValueOf(t).Elem().Field(1)
	return reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Interface()
}

// Pointer returns a pointer to what *t holds, where t is a pointer to an Open or to a
// struct that embeds a Field.
func Pointer[N any](t interface{ pointer() *N }) *N { return t.pointer() }

// Untyped is [Pointer] for a type parameter, of which only the program that runs
// knows what it holds. It returns nil if *t holds nothing, or if what would hold it is
// embedded through a nil pointer.
func Untyped(t any) (pointer any) {
	sealed, ok := t.(holder)
	if !ok {
		return nil
	}
	defer func() {
		if recover() != nil {
			pointer = nil
		}
	}()
	return sealed.untyped()
}

// A holder is a pointer to a struct with a field.
type holder interface{ untyped() any }

// Holds returns the type of what p, which may be nil, points to a holder of, or nil if that is
// not declared from an [Open]: a struct that only embeds such a one has other content as well.
func Holds(p any) reflect.Type {
	if _, ok := p.(holder); !ok {
		return nil
	}
	t := reflect.TypeOf(p).Elem()
	if t.Kind() != reflect.Struct || t.NumField() != 2 {
		return nil
	}
	in := t.Field(1)
	if _, ok := reflect.Zero(reflect.PointerTo(in.Type)).Interface().(holder); !ok || !in.Anonymous || in.PkgPath != reflect.TypeFor[field[int]]().PkgPath() {
		return nil
	}
	return in.Type.Field(0).Type
}
