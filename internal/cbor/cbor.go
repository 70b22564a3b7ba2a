// Package cbor is the default codec of what a flow keeps: RFC 8949 with deterministic encoding,
// struct fields by name as in package encoding/json, and times with nanoseconds. Durable flows keep
// their records and states in it, and recordings are written in it.
//
// Start reading at [Codec]. The types on which restarts spend most of their time have a plan, which
// produces the same bytes as the general encoder in a fraction of the time; see plan.go.
package cbor

import (
	"bytes"
	"encoding"
	"fmt"
	"reflect"
	"sync"
	"time"

	fx "github.com/fxamacker/cbor/v2"
)

// A Codec encodes values as CBOR. The zero value is ready to use, by any number of goroutines.
//
// Types with MarshalBinary and UnmarshalBinary, or MarshalCBOR and UnmarshalCBOR, encode
// themselves. Check refuses types that would lose something: functions, channels, interfaces, and
// structs with unexported fields.
type Codec struct{}

var encodeMode, decodeMode = sync.OnceValue(func() fx.UserBufferEncMode {
	o := fx.CoreDetEncOptions()
	o.Time, o.TimeTag = fx.TimeRFC3339Nano, fx.EncTagRequired
	m, err := o.UserBufferEncMode()
	if err != nil {
		panic(err)
	}
	return m
}), sync.OnceValue(func() fx.DecMode {
	m, err := fx.DecOptions{
		MaxArrayElements: 1 << 30, MaxMapPairs: 1 << 30, MaxNestedLevels: 256,
		TimeTagToAny: fx.TimeTagToTime,
		UTF8:         fx.UTF8DecodeInvalid, // a string may hold any bytes, and what was kept must stay readable
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return m
})

// Append appends the encoding of v. Equal values have equal bytes.
func (Codec) Append(dst []byte, v any) ([]byte, error) {
	if p := planOf(reflect.TypeOf(v)); p != nil {
		x := reflect.New(p.of)
		x.Elem().Set(reflect.ValueOf(v))
		return p.append(dst, x.UnsafePointer())
	}
	return appendOther(dst, v)
}

// appendOther appends the encoding that the CBOR package makes.
func appendOther(dst []byte, v any) ([]byte, error) {
	b := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(b)
	b.Reset()
	if err := encodeMode().MarshalToBuffer(v, b); err != nil {
		return dst, err
	}
	return append(dst, b.Bytes()...), nil
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// AppendPointed appends the encoding of the value to which p points, as Append does for a value.
func (Codec) AppendPointed(dst []byte, p any) ([]byte, error) {
	v := reflect.ValueOf(p)
	if plan := planOf(v.Type().Elem()); plan != nil {
		return plan.append(dst, v.UnsafePointer())
	}
	return appendOther(dst, v.Elem().Interface())
}

// Decode decodes data into the value to which p points.
func (Codec) Decode(data []byte, p any) error {
	if v := reflect.ValueOf(p); v.Kind() == reflect.Pointer && !v.IsNil() {
		if plan := planOf(v.Type().Elem()); plan != nil {
			if rest, ok := plan.decode(data, v.Elem()); ok && len(rest) == 0 {
				return nil
			}
		}
	}
	return decodeMode().Unmarshal(data, p)
}

// checked caches the results of Check.
var checked sync.Map // of reflect.Type to error or nil

// Check returns an error if values of a type would not be decoded as they were.
func (Codec) Check(t reflect.Type) error {
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
	cborMarshaler     = reflect.TypeFor[fx.Marshaler]()
	cborUnmarshaler   = reflect.TypeFor[fx.Unmarshaler]()
)

// encodesItself reports whether t implements its own encoding, in both directions.
func encodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Implements(binaryMarshaler) && p.Implements(binaryUnmarshaler) ||
		t.Implements(cborMarshaler) && p.Implements(cborUnmarshaler)
}

// checkType checks t, which is nested in the types of within.
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

// Diagnose returns the first value of data in the diagnostic notation of RFC 8949, on one line, and
// the rest of data. It returns an error if data does not begin with a value.
func Diagnose(data []byte) (text string, rest []byte, err error) { return fx.DiagnoseFirst(data) }
