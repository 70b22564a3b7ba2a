package cow

import (
	"cmp"
	"reflect"
	"unsafe"
)

// lessOf returns the natural order of K, or nil if its kind has none.
func lessOf[K comparable]() func(a, b K) bool {
	switch reflect.TypeFor[K]().Kind() {
	case reflect.String:
		return lessAs[K, string]
	case reflect.Int:
		return lessAs[K, int]
	case reflect.Int8:
		return lessAs[K, int8]
	case reflect.Int16:
		return lessAs[K, int16]
	case reflect.Int32:
		return lessAs[K, int32]
	case reflect.Int64:
		return lessAs[K, int64]
	case reflect.Uint:
		return lessAs[K, uint]
	case reflect.Uint8:
		return lessAs[K, uint8]
	case reflect.Uint16:
		return lessAs[K, uint16]
	case reflect.Uint32:
		return lessAs[K, uint32]
	case reflect.Uint64:
		return lessAs[K, uint64]
	case reflect.Uintptr:
		return lessAs[K, uintptr]
	case reflect.Float32:
		return lessAs[K, float32]
	case reflect.Float64:
		return lessAs[K, float64]
	}
	return nil
}

// lessAs compares keys of type K, whose underlying type is O.
func lessAs[K comparable, O cmp.Ordered](a, b K) bool {
	return cmp.Less(*(*O)(unsafe.Pointer(&a)), *(*O)(unsafe.Pointer(&b)))
}
