package cbor

import (
	"cmp"
	"encoding"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	fx "github.com/fxamacker/cbor/v2"
)

// Decoding takes most of the time of a restart, and most of what is kept is simple: strings, numbers,
// times, bytes, and structs, pointers and slices of these. A plan encodes and decodes such a type with
// the same bytes as the CBOR package. Data in another encoding, for example from a program whose type
// had other fields, is left to that package, and so are fields of other types.

// Values are encoded directly from memory. Package reflect would take twice as long, and a step waits
// while its records are encoded.

// A plan describes how values of a type are encoded.
type plan struct {
	of     reflect.Type
	size   uintptr
	shape  shape
	fields []planned // of a struct, in the order of their encoding
	elem   *plan     // of a pointer or slice
}

// A shape is a kind of types with the same encoding.
type shape uint8

const (
	aBool shape = iota
	aString
	anInt  // of any size
	anUint // of any size
	aTime
	bytesOrNil
	aStruct
	aPointer
	aSlice
	another // only the CBOR package knows it
)

type planned struct {
	name  string // encoded
	index int
	at    uintptr // offset in the struct
	plan  *plan
	omit  func(at unsafe.Pointer) bool // reports whether the field is left out of the encoding; nil if it never is
}

var plans sync.Map // of reflect.Type to *plan; nil if only the CBOR package knows the type

// recent has plans that were asked for, each at a place that its type determines. A type is looked up for each value,
// and plans alone takes ten times as long.
var recent [64]atomic.Pointer[plan]

func planOf(t reflect.Type) *plan {
	if t == nil { // the type of nil
		return nil
	}
	at := &recent[reflect.ValueOf(t).Pointer()/64%uintptr(len(recent))]
	if p := at.Load(); p != nil && p.of == t {
		return p
	}
	if p, ok := plans.Load(t); ok {
		p := p.(*plan)
		if p != nil {
			at.Store(p)
		}
		return p
	}
	p := makePlan(t, nil)
	if p.shape == another {
		p = nil
	}
	plans.Store(t, p)
	return p
}

// special are the interfaces of types that implement their own encoding.
var special = []reflect.Type{
	cborMarshaler, cborUnmarshaler, binaryMarshaler, binaryUnmarshaler,
	reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
}

// mostPlanned is the largest number of fields of a struct with a plan: their count fits in the head.
const mostPlanned = 23

// makePlan returns a plan for t, which is nested in the types of within. A type that contains itself
// has no plan.
func makePlan(t reflect.Type, within []reflect.Type) *plan {
	p := &plan{of: t, size: t.Size(), shape: another}
	if t == timeType {
		p.shape = aTime
		return p
	}
	if t.PkgPath() == reflect.TypeFor[fx.Tag]().PkgPath() || slices.Contains(within, t) {
		return p
	}
	for _, x := range special {
		if t.Implements(x) || reflect.PointerTo(t).Implements(x) {
			return p
		}
	}
	within = append(within, t)
	switch t.Kind() {
	case reflect.Bool:
		p.shape = aBool
	case reflect.String:
		p.shape = aString
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		p.shape = anInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		p.shape = anUint
	case reflect.Pointer:
		p.shape, p.elem = aPointer, makePlan(t.Elem(), within)
	case reflect.Slice:
		switch {
		case t.Elem() == reflect.TypeFor[byte]():
			p.shape = bytesOrNil
		case t.Elem().Kind() != reflect.Uint8:
			p.shape, p.elem = aSlice, makePlan(t.Elem(), within)
		}
	case reflect.Struct:
		if fields := fieldsOf(t, within); fields != nil {
			p.shape, p.fields = aStruct, fields
		}
	}
	return p
}

// fieldsOf returns the fields of a struct, or nil if only the CBOR package knows them.
func fieldsOf(t reflect.Type, within []reflect.Type) (all []planned) {
	n := t.NumField()
	if n == 0 || n > mostPlanned {
		return nil
	}
	for i := range n {
		f := t.Field(i)
		name, options, _ := strings.Cut(cmp.Or(f.Tag.Get("cbor"), f.Tag.Get("json")), ",")
		if f.Anonymous || !f.IsExported() || name == "-" {
			return nil
		}
		name = cmp.Or(name, f.Name)
		of := planned{string(appendHead(nil, majorText, uint64(len(name)))) + name, i, f.Offset, makePlan(f.Type, within), nil}
		if options != "" {
			if of.omit = of.plan.omitted(options); of.omit == nil {
				return nil
			}
		}
		all = append(all, of)
	}
	slices.SortFunc(all, func(a, b planned) int { return strings.Compare(a.name, b.name) })
	for i := range all[1:] {
		if all[i].name == all[i+1].name {
			return nil
		}
	}
	return all
}

// omitted returns the condition for an option of a field, or nil if only the CBOR package knows it.
func (p *plan) omitted(option string) func(unsafe.Pointer) bool {
	zero := func(at unsafe.Pointer) bool { return reflect.NewAt(p.of, at).Elem().IsZero() }
	switch zeroer := reflect.TypeFor[interface{ IsZero() bool }](); {
	case option == "omitzero" && p.shape == aTime:
		return func(at unsafe.Pointer) bool { return (*time.Time)(at).IsZero() }
	case option == "omitzero" && !p.of.Implements(zeroer) && !reflect.PointerTo(p.of).Implements(zeroer):
	case option == "omitempty" && p.shape <= anUint:
	case option == "omitempty" && (p.shape == bytesOrNil || p.shape == aSlice):
		return func(at unsafe.Pointer) bool { return len(*(*[]byte)(at)) == 0 }
	case option == "omitempty" && p.shape == aPointer:
	default:
		return nil
	}
	switch p.shape {
	case aString:
		return func(at unsafe.Pointer) bool { return len(*(*string)(at)) == 0 }
	case aPointer, bytesOrNil, aSlice: // their memory begins with a pointer
		return func(at unsafe.Pointer) bool { return *(*unsafe.Pointer)(at) == nil }
	}
	return zero
}
