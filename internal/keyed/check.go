package keyed

import (
	"errors"
	"fmt"
	"reflect"
)

var (
	// ErrUnequal says that a value is not equal to itself, as a NaN is not.
	ErrUnequal = errors.New("it is not equal to itself, so nothing could find it again")

	// ErrUnhashable says that a value holds something that cannot be hashed or compared,
	// as a slice in an interface.
	ErrUnhashable = errors.New("it cannot be hashed")
)

// CheckOf returns a function that says why a value of K cannot be a key, or nil if every
// value can. It looks at the type by reflection, so it belongs where an operator is built.
//
// A value cannot be a key if it is not equal to itself, which takes a floating-point or
// complex number somewhere in it, or if it cannot be hashed, which takes an interface
// somewhere in it.
func CheckOf[K comparable]() func(K) error {
	floats, interfaces := parts(reflect.TypeFor[K]())
	if interfaces {
		return hashable(HasherOf[K]())
	}
	if !floats {
		return nil
	}
	return func(k K) error {
		if k != k {
			return ErrUnequal
		}
		return nil
	}
}

// parts reports whether a value of t has floating-point numbers and interfaces in it that
// count when it is compared.
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
			if t.Field(i).Name == "_" { // is not compared
				continue
			}
			f, n := parts(t.Field(i).Type)
			floats, interfaces = floats || f, interfaces || n
		}
	}
	return floats, interfaces
}

// hashable checks by trying: what an interface holds is known only then.
func hashable[K comparable](h *Hasher[K]) func(K) error {
	return func(k K) (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("%w: %v", ErrUnhashable, v)
			}
		}()
		h.Hash(k)
		if k != k {
			return ErrUnequal
		}
		return nil
	}
}
