// Package seal provides types whose values only the packages of this module can open and make.
//
// The bound, order and retries of a collection are promises. If any package could wrap a node in any
// type, the promises would be worth nothing; if none could, every operator would have to live in
// package dataflow. So the public types are declared from types of this package, which another module
// can neither import nor spell:
//
//	type stream[T, L, B, O, R any] = seal.Type[func(T, L, B, O, R), engine.HeldNode[T]]
//
//	type Stream[T any, L Location, B bounds.Stream, O Order, R Retries] stream[T, L, B, O, R]
//
// A [Type] is an unnamed struct type. A value of the public type is assignable to its Type, and back,
// without a conversion and in type inference. The mark makes two Types different, and with them the
// public types. All of this is checked at compile time: an engine.HeldNode[T] is an interface that
// only *engine.Node[T] implements, so a wrong node does not compile. No exported function, method or
// field of a public package mentions this package, so type inference cannot be used to obtain a zero
// value.
//
// In each package, node.go is the only file that uses this one; in package engine it is
// collection.go.
package seal

import "reflect"

// A Type is the type from which a public type is declared. It holds an N. Two Types with different
// marks do not convert to each other.
//
// It has no methods: a program has many collection types, and for each the compiler and the linker
// would keep a promoted method, with wrappers and names that are longer than all the rest.
type Type[Mark, N any] = struct {
	_     [0]Mark
	value N
}

// An Open is a Type that [Pointer], [Untyped] and [Holds] accept, also if it is embedded.
type Open[Mark, N any] = struct {
	_ [0]Mark
	field[N]
}

// A Field is embedded in a public type that has other fields as well.
type Field[N any] = field[N]

// A field has only unexported methods. They are promoted to every type that embeds it, and only this
// package can call them.
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

// Value returns the content of a Type.
func Value[Mark, N any](t Type[Mark, N]) N { return t.value }

// MakeOpen returns a value of an Open that holds n.
func MakeOpen[Mark, N any](n N) (t Open[Mark, N]) {
	t.value = n
	return t
}

// OpenValue returns the content of an Open.
func OpenValue[Mark, N any](t Open[Mark, N]) N { return t.value }

// Within returns a pointer to the content of *t, where t is a pointer to a Type whose content is
// known only at run time.
func Within(t any) (pointer any) {
	v := reflect.ValueOf(t).Elem().Field(1)
	return reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Interface()
}

// Pointer returns a pointer to the content of *t, where t is a pointer to an Open or to a struct that
// embeds a Field.
func Pointer[N any](t interface{ pointer() *N }) *N { return t.pointer() }

// Untyped is [Pointer] for a type parameter, whose content is known only at run time. It returns nil
// if *t has no content, or if the content is embedded through a nil pointer.
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

// Holds returns the type of the content of the type to which p points; p may be nil. It returns nil
// if that type is not declared from an [Open]. A struct that only embeds such a type has other
// content as well, so Holds returns nil for it.
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
