// Package digest hashes values by what they contain, so that the simulator can tell whether
// two schedules showed the same and whether a value was changed after it was published.
package digest

import (
	"encoding/binary"
	"math"
	"reflect"
	"slices"
)

// absent stands for a nil slice or map, which differs from an empty one.
const absent = math.MaxUint64

// maxDepth limits how far pointers are followed; what is nested deeper is ignored.
const maxDepth = 24

// Of returns a hash of everything that v contains. Pointers count by what they point to, and
// maps by their entries in any order. Functions and channels count only by whether they are
// nil. The hash is the same in every process.
//
// It costs a walk over all of v by reflection.
func Of(v any) uint64 {
	h := start
	switch v := v.(type) { // the most frequent types, without reflection
	case int:
		h.number(uint64(reflect.Int))
		h.number(uint64(v))
	case string:
		h.number(uint64(reflect.String))
		h.text(v)
	default:
		h.write(reflect.ValueOf(v), 0)
	}
	return uint64(h)
}

// A hash is the hash of what was written so far. It does not resist attempts to find
// collisions. Each number changes it by a permutation, so no two numbers collide.
type hash uint64

const start hash = 0x9ae16a3b2f90404f

func (h *hash) number(n uint64) {
	x := (uint64(*h) ^ n) * 0xbf58476d1ce4e5b9
	x ^= x >> 32
	x *= 0x94d049bb133111eb
	x ^= x >> 29
	*h = hash(x + 0x9e3779b97f4a7c15)
}

// text writes a string with its length.
func (h *hash) text(s string) {
	h.number(uint64(len(s)))
	var word [8]byte
	for len(s) > 0 {
		n := copy(word[:], s)
		clear(word[n:])
		h.number(binary.LittleEndian.Uint64(word[:]))
		s = s[n:]
	}
}

func (h *hash) write(v reflect.Value, depth int) {
	if !v.IsValid() {
		h.number(0)
		return
	}
	h.number(uint64(v.Kind()))
	if depth > maxDepth {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			h.number(1)
		} else {
			h.number(0)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		h.number(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		h.number(v.Uint())
	case reflect.Float32, reflect.Float64:
		h.number(math.Float64bits(v.Float()))
	case reflect.Complex64, reflect.Complex128:
		h.number(math.Float64bits(real(v.Complex())))
		h.number(math.Float64bits(imag(v.Complex())))
	case reflect.String:
		h.text(v.String())
	case reflect.Slice:
		if v.IsNil() {
			h.number(absent)
			return
		}
		h.elements(v, depth)
	case reflect.Array:
		h.elements(v, depth)
	case reflect.Struct:
		for i := range v.NumField() {
			h.write(v.Field(i), depth+1)
		}
	case reflect.Map:
		if v.IsNil() {
			h.number(absent)
			return
		}
		h.entries(v, depth)
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			h.number(0)
			return
		}
		if v.Kind() == reflect.Interface {
			h.text(v.Elem().Type().String())
		}
		h.write(v.Elem(), depth+1)
	default: // functions, channels, unsafe pointers
		if v.IsNil() {
			h.number(0)
		} else {
			h.number(1)
		}
	}
}

func (h *hash) elements(v reflect.Value, depth int) {
	h.number(uint64(v.Len()))
	for i := range v.Len() {
		h.write(v.Index(i), depth+1)
	}
}

// entries hashes each entry alone and then all hashes in sorted order, since a map has no
// order.
func (h *hash) entries(v reflect.Value, depth int) {
	hashes := make([]uint64, 0, v.Len())
	for it := v.MapRange(); it.Next(); {
		e := start
		e.write(it.Key(), depth+1)
		e.write(it.Value(), depth+1)
		hashes = append(hashes, uint64(e))
	}
	slices.Sort(hashes)
	h.number(uint64(len(hashes)))
	for _, x := range hashes {
		h.number(x)
	}
}
