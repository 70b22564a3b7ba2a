package durable

import (
	"encoding"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// A Codec turns values into bytes and back. Bytes written by an earlier version of a
// program are read by a later one, so a codec has to put up with fields that were added.
// Equal values have equal bytes, also when they were decoded before: steps that are made again are
// compared by them.
// It is used by any number of goroutines.
type Codec interface {
	// Check says why values of a type would not come back as they were, or nil. A flow
	// that needs such a type is refused when it is built.
	Check(t reflect.Type) error
	// Append appends the encoding of v to dst.
	Append(dst []byte, v any) ([]byte, error)
	// Decode decodes data into what p points to.
	Decode(data []byte, p any) error
}

// CBOR is the default codec: RFC 8949 with deterministic encoding, struct fields by
// name as in package encoding/json, times with nanoseconds. Types with MarshalBinary
// and UnmarshalBinary, or MarshalCBOR and UnmarshalCBOR, encode themselves.
//
// Refused are types that would lose something: functions, channels, interfaces other
// than empty structs' own encodings, and structs with fields that are not exported.
func CBOR() Codec { return cborCodec{} }

type cborCodec struct{}

var encodeMode, decodeMode = sync.OnceValue(func() cbor.EncMode {
	o := cbor.CoreDetEncOptions()
	o.Time, o.TimeTag = cbor.TimeRFC3339Nano, cbor.EncTagRequired
	m, err := o.EncMode()
	if err != nil {
		panic(err)
	}
	return m
}), sync.OnceValue(func() cbor.DecMode {
	m, err := cbor.DecOptions{
		MaxArrayElements: 1 << 30, MaxMapPairs: 1 << 30, MaxNestedLevels: 256,
		TimeTagToAny: cbor.TimeTagToTime,
		UTF8:         cbor.UTF8DecodeInvalid, // what was kept has to be readable, and a string may be any bytes
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return m
})

func (cborCodec) Append(dst []byte, v any) ([]byte, error) {
	if p := planOf(reflect.TypeOf(v)); p != nil {
		return p.append(dst, reflect.ValueOf(v)), nil
	}
	b, err := encodeMode().Marshal(v)
	if err != nil {
		return dst, err
	}
	return append(dst, b...), nil
}

func (cborCodec) Decode(data []byte, p any) error {
	if v := reflect.ValueOf(p); v.Kind() == reflect.Pointer && !v.IsNil() {
		if plan := planOf(v.Type().Elem()); plan != nil {
			if rest, ok := plan.decode(data, v.Elem()); ok && len(rest) == 0 {
				return nil
			}
		}
	}
	return decodeMode().Unmarshal(data, p)
}

// checked remembers types that were found fit.
var checked sync.Map // of reflect.Type to error or nil

func (cborCodec) Check(t reflect.Type) error {
	if err, ok := checked.Load(t); ok {
		err, _ := err.(error)
		return err
	}
	err := checkType(t, nil)
	checked.Store(t, err)
	return err
}

var (
	timeType          = reflect.TypeFor[time.Time]()
	binaryMarshaler   = reflect.TypeFor[encoding.BinaryMarshaler]()
	binaryUnmarshaler = reflect.TypeFor[encoding.BinaryUnmarshaler]()
	cborMarshaler     = reflect.TypeFor[cbor.Marshaler]()
	cborUnmarshaler   = reflect.TypeFor[cbor.Unmarshaler]()
)

// encodesItself reports whether t says how it is encoded, in both directions.
func encodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Implements(binaryMarshaler) && p.Implements(binaryUnmarshaler) ||
		t.Implements(cborMarshaler) && p.Implements(cborUnmarshaler)
}

// checkType walks t, with the types it is inside of.
func checkType(t reflect.Type, within []reflect.Type) error {
	for _, outer := range within {
		if outer == t {
			return nil
		}
	}
	if t == timeType || encodesItself(t) {
		return nil
	}
	within = append(within, t)
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return nil
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return checkType(t.Elem(), within)
	case reflect.Map:
		if err := checkType(t.Key(), within); err != nil {
			return err
		}
		return checkType(t.Elem(), within)
	case reflect.Struct:
		return checkFields(t, within)
	case reflect.Interface:
		return fmt.Errorf("%v is an interface: what is in it could not be decoded", t)
	}
	return fmt.Errorf("%v is a %v, which has no encoding", t, t.Kind())
}

func checkFields(t reflect.Type, within []reflect.Type) error {
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() && !(f.Anonymous && f.Type.Kind() == reflect.Struct) {
			if f.Type.Size() == 0 { // such as a marker that forbids comparison
				continue
			}
			return fmt.Errorf("field %s of %v is not exported and would be lost: export it, or give %v MarshalBinary and UnmarshalBinary", f.Name, t, t)
		}
		if f.Tag.Get("cbor") == "-" || f.Tag.Get("cbor") == "" && f.Tag.Get("json") == "-" {
			return fmt.Errorf("field %s of %v has the tag %q and would be lost", f.Name, t, "-")
		}
		if err := checkType(f.Type, within); err != nil {
			return fmt.Errorf("field %s of %v: %w", f.Name, t, err)
		}
	}
	return nil
}
