package keyed

import (
	"errors"
	"fmt"
	"reflect"
)

var (
	// ErrUnequal is returned for a value that is not equal to itself, such as a NaN.
	ErrUnequal = errors.New("it is not equal to itself, so nothing could find it again")

	// ErrUnhashable is returned for a value that contains something that cannot be hashed
	// or compared, such as a slice in an interface.
	ErrUnhashable = errors.New("it cannot be hashed")
)

// CheckOf returns a function that returns the key for a value of K, or why the value cannot
// be a key. The key is the value with each negative zero replaced by zero; see
// [PositiveOf]. CheckOf returns nil if every value is its own key. It looks at the type by
// reflection, so call it where an operator is built.
//
// A value cannot be a key if it is not equal to itself, which is only possible if it
// contains a floating-point or complex number, or if it cannot be hashed, which is only
// possible if it contains an interface.
func CheckOf[K comparable]() func(K) (K, error) {
	floats, interfaces := parts(reflect.TypeFor[K]())
	positive := PositiveOf[K]()
	if interfaces {
		return hashable(HasherOf[K](), positive)
	}
	if !floats {
		return nil
	}
	return func(k K) (K, error) {
		if k != k {
			return k, ErrUnequal
		}
		return positive(k), nil
	}
}

// parts reports whether a value of t contains floating-point numbers and interfaces that
// count in comparisons.
func parts(t reflect.Type) (floats, interfaces bool) {
	switch t.Kind() {
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return true, false
	case reflect.Interface:
		return false, true
	case reflect.Array:
		if t.Len() > 0 {
			return parts(t.Elem())
		}
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).Name == "_" { // == ignores it
				continue
			}
			f, n := parts(t.Field(i).Type)
			floats, interfaces = floats || f, interfaces || n
		}
	}
	return floats, interfaces
}

// hashable checks by trying, since the content of an interface is not known before.
func hashable[K comparable](h *Hasher[K], positive func(K) K) func(K) (K, error) {
	return func(k K) (key K, err error) {
		key = k // also if the hash panics
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("%w: %v", ErrUnhashable, v)
			}
		}()
		h.Hash(k)
		if k != k {
			return k, ErrUnequal
		}
		return positive(k), nil
	}
}
