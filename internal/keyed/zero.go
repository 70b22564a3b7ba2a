package keyed

import (
	"math"
	"reflect"
	"unsafe"
)

// A negative zero equals zero, but a program can tell them apart, and their encodings differ. So whatever keeps the first of
// several equal values would show which of them came first.

// PositiveOf returns a function that replaces each negative zero in a value by zero. It is nil if values of K contain none. It
// looks at the type by reflection, so call it where an operator is built.
func PositiveOf[K comparable]() func(K) K {
	in := zerosIn(reflect.TypeFor[K](), 0)
	if len(in) == 0 {
		return nil
	}
	for _, z := range in {
		if z.boxed != nil {
			return func(k K) K {
				unsign(unsafe.Pointer(&k), in)
				return k
			}
		}
	}
	return func(k K) K { // k stays on the stack
		for _, z := range in {
			z.unsign(unsafe.Pointer(&k))
		}
		return k
	}
}

// A zero is a place in a value where a negative zero may be.
type zero struct {
	at    uintptr
	half  bool         // a float32
	boxed reflect.Type // of an interface, whose value may contain some; otherwise nil
}

// zerosIn returns the places in a value of t that begins at an offset. It leaves out what == ignores.
func zerosIn(t reflect.Type, at uintptr) (all []zero) {
	switch t.Kind() {
	case reflect.Float64:
		return []zero{{at: at}}
	case reflect.Float32:
		return []zero{{at: at, half: true}}
	case reflect.Complex128:
		return []zero{{at: at}, {at: at + 8}}
	case reflect.Complex64:
		return []zero{{at: at, half: true}, {at: at + 4, half: true}}
	case reflect.Interface:
		return []zero{{at: at, boxed: t}}
	case reflect.Array:
		for i := range t.Len() {
			in := zerosIn(t.Elem(), at+uintptr(i)*t.Elem().Size())
			if len(in) == 0 {
				return nil
			}
			all = append(all, in...)
		}
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.Name != "_" {
				all = append(all, zerosIn(f.Type, at+f.Offset)...)
			}
		}
	}
	return all
}

// unsign replaces the negative zeros in the value at p, and reports whether there were any.
func unsign(p unsafe.Pointer, in []zero) (changed bool) {
	for _, z := range in {
		if z.boxed != nil {
			changed = unsignBoxed(reflect.NewAt(z.boxed, unsafe.Add(p, z.at)).Elem()) || changed
		} else {
			changed = z.unsign(p) || changed
		}
	}
	return changed
}

// unsignBoxed replaces the negative zeros in the value of an interface by giving it another value.
func unsignBoxed(box reflect.Value) bool {
	v := box.Elem()
	if !v.IsValid() {
		return false
	}
	in := zerosIn(v.Type(), 0)
	if len(in) == 0 {
		return false
	}
	other := reflect.New(v.Type())
	other.Elem().Set(v)
	if !unsign(other.UnsafePointer(), in) {
		return false
	}
	box.Set(other.Elem())
	return true
}

// unsign replaces a negative zero in the value at p, and reports whether there was one.
func (z zero) unsign(p unsafe.Pointer) bool {
	if q := unsafe.Add(p, z.at); z.half {
		if x := (*float32)(q); *x == 0 && math.Signbit(float64(*x)) {
			*x = 0
			return true
		}
	} else if x := (*float64)(q); *x == 0 && math.Signbit(*x) {
		*x = 0
		return true
	}
	return false
}

// BitsOf returns a function that returns the bits of a floating-point number as an integer, which is smaller for a negative zero
// than for zero. It is nil if T is another type.
func BitsOf[T any]() func(T) int64 {
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Float64:
		return func(x T) int64 { return *(*int64)(unsafe.Pointer(&x)) }
	case reflect.Float32:
		return func(x T) int64 { return int64(*(*int32)(unsafe.Pointer(&x))) }
	}
	return nil
}
