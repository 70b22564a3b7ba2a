// Package codec encodes what a history has to keep, and decodes it again: records that came in, what steps gave, and what
// operators remember.
//
// A [Codec] is supplied by the user and turns values of a flow into bytes. A [Record] is one record of a history. A [Decoder]
// reads what was appended; after an error everything that it reads is zero. Start reading at Codec. A [Describer] writes the same
// data for people.
package codec

import (
	"encoding/binary"
	"fmt"
	"reflect"
)

// An Of is the codec of one type of value: how it is saved and loaded.
type Of[T any] struct {
	Kind string // with the types in it
	Save func(dst []byte, c Codec, x *T) ([]byte, error)
	Load func(d *Decoder, c Codec, x *T)

	// For a type that is kept in another form: a pointer to the value that x stands for, and its type. If nil, x is the value.
	Show func(x *T) any
	Type reflect.Type
}

// A Codec turns values into bytes and back. It is safe for concurrent use.
type Codec interface {
	// Check returns why values of a type cannot be encoded and decoded without loss, or nil.
	Check(t reflect.Type) error
	// Append appends the encoding of v.
	Append(dst []byte, v any) ([]byte, error)
	// Decode decodes into what p points to.
	Decode(data []byte, p any) error
}

// A Reader is a codec that reads what another one has written, in the same form.
type Reader interface{ Written() Codec }

// Same reports whether two codecs have the same encoding: they are the same, or a is a [Reader] of b.
func Same(a, b Codec) bool {
	if r, ok := a.(Reader); ok {
		a = r.Written()
	}
	t := reflect.TypeOf(a)
	return t == reflect.TypeOf(b) && t.Comparable() && a == b
}

// A PointerCodec is a codec that can encode what a pointer points to without copying it.
type PointerCodec interface {
	Codec
	// AppendPointed appends the encoding of what p points to, as Append does for the value.
	AppendPointed(dst []byte, p any) ([]byte, error)
}

// A KeyCodec is a codec whose decoded values are not always equal to those that were encoded.
type KeyCodec interface {
	Codec
	// CheckKey returns why values of a type that passes Check cannot be keys, or nil.
	CheckKey(t reflect.Type) error
}

// AppendValue appends the length and the encoding of v.
func AppendValue[T any](dst []byte, c Codec, v T) ([]byte, error) { return AppendFrom(dst, c, &v) }

// AppendFrom is [AppendValue] of what p points to. A [PointerCodec] encodes it without allocating for most types.
func AppendFrom[T any](dst []byte, c Codec, p *T) ([]byte, error) { return appendFrom(dst, c, p) }

// appendFrom is AppendFrom without its type parameter. Code that works by reflection is thus not compiled for each type of a
// program, where it was a tenth of what an operator adds to a binary.
func appendFrom(dst []byte, c Codec, p any) ([]byte, error) {
	at := len(dst)
	dst = append(dst, 0)
	var err error
	if IsView(p) {
		dst, err = appendView(dst, c, PartsOf(p))
	} else {
		dst, err = AppendPointed(dst, c, p)
	}
	if err != nil {
		return dst[:at], fmt.Errorf("dataflow: encoding a %T: %w", pointed(p), err)
	}
	n := len(dst) - at - 1
	if n < 1<<7 {
		dst[at] = byte(n)
		return dst, nil
	}
	var size [binary.MaxVarintLen64]byte
	k := binary.PutUvarint(size[:], uint64(n))
	dst = append(dst, size[:k-1]...)
	copy(dst[at+k:], dst[at+1:at+1+n])
	copy(dst[at:], size[:k])
	return dst, nil
}

// DecodeValue reads what AppendValue appended.
func DecodeValue[T any](d *Decoder, c Codec) (v T) {
	DecodeInto(d, c, &v)
	return v
}

// DecodeInto is [DecodeValue] into a variable that has the zero value. After an error its content is undefined.
func DecodeInto[T any](d *Decoder, c Codec, v *T) { decodeInto(d, c, v) }

// decodeInto is DecodeInto without its type parameter; see appendFrom.
func decodeInto(d *Decoder, c Codec, v any) {
	b := d.Bytes()
	if d.Err != nil {
		return
	}
	if IsView(v) {
		in := &Decoder{Data: b}
		if loadView(in, c, PartsOf(v)); in.Err != nil {
			d.Err, d.Data = in.Err, nil
		}
		return
	}
	if err := c.Decode(b, v); err != nil {
		d.Err = fmt.Errorf("dataflow: decoding a %T: %w", pointed(v), err)
		d.Data = nil
	}
}

// pointed returns what p points to.
func pointed(p any) any { return reflect.ValueOf(p).Elem().Interface() }
