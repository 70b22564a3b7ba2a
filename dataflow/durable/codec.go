package durable

import (
	"reflect"

	"github.com/millrace/millrace/internal/cbor"
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
func CBOR() Codec { return cbor.Codec{} }
