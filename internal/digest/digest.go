// Package digest hashes values by what they contain, so that the simulator can tell
// whether two schedules showed the same and whether a value was changed after it was
// published.
package digest

import (
	"hash/maphash"
	"math"
	"reflect"
	"slices"
)

// absent stands for a nil slice or map, which differs from an empty one.
const absent = math.MaxUint64

var seed = maphash.MakeSeed()

// maxDepth bounds how far pointers are followed; what lies deeper does not count.
const maxDepth = 24

// Of returns a hash of everything that v contains. Pointers count by what they point
// to, maps by their entries in any order. Functions and channels count only by
// whether they are nil. The hash differs from process to process.
//
// The cost is that of walking all of v by reflection.
func Of(v any) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	write(&h, reflect.ValueOf(v), 0)
	return h.Sum64()
}

func number(h *maphash.Hash, n uint64) {
	var b [8]byte
	for i := range b {
		b[i] = byte(n >> (8 * i))
	}
	h.Write(b[:])
}

func write(h *maphash.Hash, v reflect.Value, depth int) {
	if !v.IsValid() {
		number(h, 0)
		return
	}
	number(h, uint64(v.Kind()))
	if depth > maxDepth {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			number(h, 1)
		} else {
			number(h, 0)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		number(h, uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		number(h, v.Uint())
	case reflect.Float32, reflect.Float64:
		number(h, math.Float64bits(v.Float()))
	case reflect.Complex64, reflect.Complex128:
		number(h, math.Float64bits(real(v.Complex())))
		number(h, math.Float64bits(imag(v.Complex())))
	case reflect.String:
		number(h, uint64(v.Len()))
		h.WriteString(v.String())
	case reflect.Slice:
		if v.IsNil() {
			number(h, absent)
			return
		}
		elements(h, v, depth)
	case reflect.Array:
		elements(h, v, depth)
	case reflect.Struct:
		for i := range v.NumField() {
			write(h, v.Field(i), depth+1)
		}
	case reflect.Map:
		if v.IsNil() {
			number(h, absent)
			return
		}
		entries(h, v, depth)
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			number(h, 0)
			return
		}
		if v.Kind() == reflect.Interface {
			h.WriteString(v.Elem().Type().String())
		}
		write(h, v.Elem(), depth+1)
	default: // functions, channels, unsafe pointers
		if v.IsNil() {
			number(h, 0)
		} else {
			number(h, 1)
		}
	}
}

func elements(h *maphash.Hash, v reflect.Value, depth int) {
	number(h, uint64(v.Len()))
	for i := range v.Len() {
		write(h, v.Index(i), depth+1)
	}
}

// entries hashes each entry alone and then all hashes in their own order, since a
// map has none.
func entries(h *maphash.Hash, v reflect.Value, depth int) {
	hashes := make([]uint64, 0, v.Len())
	for it := v.MapRange(); it.Next(); {
		var e maphash.Hash
		e.SetSeed(seed)
		write(&e, it.Key(), depth+1)
		write(&e, it.Value(), depth+1)
		hashes = append(hashes, e.Sum64())
	}
	slices.Sort(hashes)
	number(h, uint64(len(hashes)))
	for _, x := range hashes {
		number(h, x)
	}
}
