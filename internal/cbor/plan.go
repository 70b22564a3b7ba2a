package cbor

import (
	"encoding"
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"

	fx "github.com/fxamacker/cbor/v2"
)

// What a restart takes longest for is decoding, and most of what is kept is simple: strings,
// numbers, and structs of these. A plan encodes and decodes such a type with the same bytes as
// the package of CBOR does. What is encoded in another way than a plan would, such as by a program
// whose type had other fields, is left to that package.

// A plan is how values of a type are encoded; nil if only the package of CBOR knows.
type plan struct {
	kind   reflect.Kind // Bool, Int64 or Uint64 for all sizes, String or Struct
	head   byte         // of a struct
	fields []planned    // of a struct, in the order in which they are encoded
}

type planned struct {
	name  string // encoded
	index int
	plan  *plan
}

var plans sync.Map // of reflect.Type to *plan

func planOf(t reflect.Type) *plan {
	if t == nil { // of nil
		return nil
	}
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	p := makePlan(t)
	plans.Store(t, p)
	return p
}

// special are interfaces of types that say how they are encoded.
var special = []reflect.Type{
	cborMarshaler, cborUnmarshaler, binaryMarshaler, binaryUnmarshaler,
	reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
	reflect.TypeFor[interface{ MarshalJSON() ([]byte, error) }](), reflect.TypeFor[interface{ UnmarshalJSON([]byte) error }](),
}

// mostPlanned is how many fields a struct of a plan has at most: their count fits in its head.
const mostPlanned = 23

func makePlan(t reflect.Type) *plan {
	if t.PkgPath() == reflect.TypeFor[fx.Tag]().PkgPath() {
		return nil
	}
	for _, x := range special {
		if t.Implements(x) || reflect.PointerTo(t).Implements(x) {
			return nil
		}
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String:
		return &plan{kind: t.Kind()}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &plan{kind: reflect.Int64}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &plan{kind: reflect.Uint64}
	case reflect.Struct:
		return structPlan(t)
	}
	return nil
}

func structPlan(t reflect.Type) *plan {
	n := t.NumField()
	if n == 0 || n > mostPlanned {
		return nil
	}
	p := &plan{kind: reflect.Struct, head: majorMap | byte(n)}
	for i := range n {
		f := t.Field(i)
		of := planOf(f.Type)
		if f.Anonymous || !f.IsExported() || f.Tag != "" || of == nil {
			return nil
		}
		p.fields = append(p.fields, planned{string(appendHead(nil, majorText, uint64(len(f.Name)))) + f.Name, i, of})
	}
	slices.SortFunc(p.fields, func(a, b planned) int { return strings.Compare(a.name, b.name) })
	return p
}

// Major types of CBOR, and two simple values.
const (
	majorNegative = 1 << 5
	majorText     = 3 << 5
	majorMap      = 5 << 5
	isFalse       = 0xf4
	isTrue        = 0xf5
)

// appendHead appends a major type and a number, in as few bytes as that needs.
func appendHead(dst []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(dst, major|byte(n))
	case n <= math.MaxUint8:
		return append(dst, major|24, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, major|25), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, major|27), n)
}

// readHead is the inverse of appendHead. It reports false for what appendHead does not append.
func readHead(data []byte) (major byte, n uint64, rest []byte, ok bool) {
	if len(data) == 0 {
		return 0, 0, nil, false
	}
	major, n, rest = data[0]&0xe0, uint64(data[0]&0x1f), data[1:]
	if n < 24 {
		return major, n, rest, true
	}
	least := uint64(24)
	switch size := 1 << (n - 24); {
	case n > 27 || len(rest) < size:
		return 0, 0, nil, false
	case size == 1:
		n = uint64(rest[0])
	case size == 2:
		n, least = uint64(binary.BigEndian.Uint16(rest)), math.MaxUint8+1
	case size == 4:
		n, least = uint64(binary.BigEndian.Uint32(rest)), math.MaxUint16+1
	default:
		n, least = binary.BigEndian.Uint64(rest), math.MaxUint32+1
	}
	return major, n, rest[1<<(data[0]&0x1f-24):], n >= least
}

func (p *plan) append(dst []byte, v reflect.Value) []byte {
	switch p.kind {
	case reflect.String:
		s := v.String()
		return append(appendHead(dst, majorText, uint64(len(s))), s...)
	case reflect.Int64:
		if n := v.Int(); n < 0 {
			return appendHead(dst, majorNegative, uint64(^n))
		} else {
			return appendHead(dst, 0, uint64(n))
		}
	case reflect.Uint64:
		return appendHead(dst, 0, v.Uint())
	case reflect.Bool:
		if v.Bool() {
			return append(dst, isTrue)
		}
		return append(dst, isFalse)
	}
	dst = append(dst, p.head)
	for i := range p.fields {
		f := &p.fields[i]
		dst = f.plan.append(append(dst, f.name...), v.Field(f.index))
	}
	return dst
}

// decode decodes into v, and returns what follows. It reports false if something was encoded in
// another way.
func (p *plan) decode(data []byte, v reflect.Value) (rest []byte, ok bool) {
	switch p.kind {
	case reflect.Struct:
		if len(data) == 0 || data[0] != p.head {
			return nil, false
		}
		data = data[1:]
		for i := range p.fields {
			f := &p.fields[i]
			if len(data) < len(f.name) || string(data[:len(f.name)]) != f.name {
				return nil, false
			}
			if data, ok = f.plan.decode(data[len(f.name):], v.Field(f.index)); !ok {
				return nil, false
			}
		}
		return data, true
	case reflect.Bool:
		if len(data) == 0 || data[0] != isTrue && data[0] != isFalse {
			return nil, false
		}
		v.SetBool(data[0] == isTrue)
		return data[1:], true
	}
	major, n, rest, ok := readHead(data)
	switch {
	case !ok:
		return nil, false
	case p.kind == reflect.String && major == majorText && n <= uint64(len(rest)):
		v.SetString(string(rest[:n]))
		return rest[n:], true
	case p.kind == reflect.Uint64 && major == 0 && !v.OverflowUint(n):
		v.SetUint(n)
		return rest, true
	case p.kind == reflect.Int64 && (major == 0 || major == majorNegative) && n <= math.MaxInt64:
		x := int64(n)
		if major != 0 {
			x = ^x
		}
		if v.OverflowInt(x) {
			return nil, false
		}
		v.SetInt(x)
		return rest, true
	}
	return nil, false
}
