// Package cbor is the default codec of what a flow keeps: RFC 8949 with deterministic encoding,
// struct fields by name as in package encoding/json, and times with nanoseconds. Durable flows keep
// their records and states in it, and recordings are written in it.
//
// Start reading at [Codec]. The types on which restarts spend most of their time have a plan, which
// produces the same bytes as the general encoder in a fraction of the time; see plan.go.
package cbor

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"sync"

	fx "github.com/fxamacker/cbor/v2"
)

// A Codec encodes values as CBOR. The zero value is ready to use, by any number of goroutines.
//
// Types with MarshalBinary and UnmarshalBinary, or MarshalCBOR and UnmarshalCBOR, encode
// themselves. Check refuses types that would lose something: functions, channels, interfaces, and
// structs with unexported fields. Append refuses values that Decode could not read; see values.go.
type Codec struct{}

var encodeMode, decodeMode = sync.OnceValue(func() fx.UserBufferEncMode {
	return newEncodeMode(fx.TimeRFC3339Nano)
}), sync.OnceValue(func() fx.DecMode {
	m, err := fx.DecOptions{
		MaxArrayElements: 1 << 30, MaxMapPairs: 1 << 30, MaxNestedLevels: 1<<16 - 1,
		TimeTagToAny: fx.TimeTagToTime,
		UTF8:         fx.UTF8DecodeInvalid, // a string may hold any bytes, and what was kept must stay readable
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return m
})

func newEncodeMode(times fx.TimeMode) fx.UserBufferEncMode {
	o := fx.CoreDetEncOptions()
	o.Time, o.TimeTag = times, fx.EncTagRequired
	m, err := o.UserBufferEncMode()
	if err != nil {
		panic(err)
	}
	return m
}

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
func appendOther(dst []byte, v any) (out []byte, err error) {
	out = dst
	b := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(b)
	b.Reset()
	t := reflect.TypeOf(v)
	defer caught("encoding", t, &err)
	mode := encodeMode()
	if t != nil && holdsTimes(t) {
		if mode, err = modeFor(reflect.ValueOf(v)); err != nil {
			return dst, err
		}
	}
	if err := mode.MarshalToBuffer(v, b); err != nil {
		return dst, err
	}
	if t != nil && nests(t) {
		if err := nestingMode().Wellformed(b.Bytes()); err != nil {
			return dst, err
		}
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
func (Codec) Decode(data []byte, p any) error { return decode(data, p, decodeMode()) }

// DecodeExact is Decode that returns an [*UnknownFieldError] for a field that the type does not have.
func (Codec) DecodeExact(data []byte, p any) error {
	err := decode(data, p, exactMode())
	if errors.As(err, new(*fx.UnknownFieldError)) {
		return &UnknownFieldError{reflect.TypeOf(p).Elem(), data}
	}
	return err
}

func decode(data []byte, p any, mode fx.DecMode) (err error) {
	if v := reflect.ValueOf(p); v.Kind() == reflect.Pointer && !v.IsNil() {
		if plan := planOf(v.Type().Elem()); plan != nil {
			if rest, ok := plan.decode(data, v.Elem(), mode); ok && len(rest) == 0 {
				return nil
			}
		}
	}
	defer caught("decoding", reflect.TypeOf(p), &err)
	if err := mode.Unmarshal(data, p); err != nil {
		return err
	}
	shareZones(reflect.ValueOf(p).Elem())
	return nil
}

var exactMode = sync.OnceValue(func() fx.DecMode {
	o := decodeMode().DecOptions()
	o.ExtraReturnErrors = fx.ExtraDecErrorUnknownField
	m, err := o.DecMode()
	if err != nil {
		panic(err)
	}
	return m
})

// An UnknownFieldError says that a value has a field that a type does not have.
type UnknownFieldError struct {
	Type reflect.Type // of the whole value
	data []byte
}

func (e *UnknownFieldError) Error() string {
	text, _, _ := Diagnose(e.data)
	if len(text) > 200 {
		text = text[:200] + "…"
	}
	return fmt.Sprintf("a %v has no field for a part of %s", e.Type, text)
}

// Diagnose returns the first value of data in the diagnostic notation of RFC 8949, on one line, and
// the rest of data. It returns an error if data does not begin with a value.
func Diagnose(data []byte) (text string, rest []byte, err error) { return fx.DiagnoseFirst(data) }
