package durable

import (
	"reflect"

	"github.com/millrace/millrace/internal/cbor"
)

// A Codec turns values into bytes and back. A later version of a program reads the bytes of an earlier one, so
// a codec must accept added fields. Equal values must have equal bytes, even if they were decoded before, since
// replayed steps are compared by their bytes. Its methods are called by any number of goroutines.
//
// If a codec has a method CheckKey(t reflect.Type) error as well, it says why decoded values of a type are not equal to
// those that were encoded. A flow whose keys have such a type is refused, too.
type Codec interface {
	// Check returns why values of a type would not come back unchanged, or nil. A flow that needs a refused
	// type is refused when it is built.
	Check(t reflect.Type) error
	// Append appends the encoding of v to dst.
	Append(dst []byte, v any) ([]byte, error)
	// Decode decodes data into what p points to.
	Decode(data []byte, p any) error
}

// CBOR is the default codec: RFC 8949 with deterministic encoding, struct fields by name as in package
// encoding/json, and times with nanoseconds. Types with MarshalBinary and UnmarshalBinary, or with MarshalCBOR
// and UnmarshalCBOR, encode themselves.
//
// It refuses other types that would lose something: functions, channels, interfaces, and structs with fields
// that have the tag "-", are unexported, or have the same name as another field, also in an embedded struct. An
// unexported field is accepted if it is an embedded struct or takes no space.
//
// A pointer is decoded as a new pointer, equal to none that came earlier. So a type that has a pointer in it and does
// not encode itself cannot be a key, nor the type of elements that an operator such as Unique compares.
//
// One loss is not refused: a field with the option omitempty that is empty, but not nil, is decoded as nil. A function
// that writes to a map in such a field has to check whether it is nil.
//
// The year of a time must be between 0 and 9999. The name of its zone is not kept, and a time whose offset from
// UTC has seconds, or is a day or more, is decoded in UTC. A type that contains itself may be nested some 60,000
// levels deep. A send of another value returns an error, and a state that has one ends the flow when it is saved.
func CBOR() Codec { return cbor.Codec{} }
