package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
)

// A Codec turns values into bytes and back. It is safe for any number of goroutines.
type Codec interface {
	// Check says why values of a type cannot be encoded and decoded without loss, or nil.
	Check(t reflect.Type) error
	// Append appends the encoding of v.
	Append(dst []byte, v any) ([]byte, error)
	// Decode decodes into what p points to.
	Decode(data []byte, p any) error
}

// A record that came in, as the history keeps it, is the operator of the input, what
// kind of record it is, who sent it, and its content. All lengths and numbers are
// varints.

// kinds of records
const (
	kindValue  = iota // an element or entry of an input
	kindAnswer        // what an asynchronous call returned
	kindTaken         // an entry of an output was taken
	kindRead          // elements of an output were read, counted from the first one ever
	kindHas           // whether an input has a key: refused if it has, and without effect
)

// A Record is one record that came in.
type Record struct {
	Op     int32
	Kind   byte
	Nonce  uint64 // names a record whose sender waits to hear whether it was refused; else 0
	Source string // of a sender that numbers its records, else empty
	Number uint64 // of the record at its source, or how far a reader is
	Key    []byte // the encoded key, if the record has one
	Value  []byte // the encoded value, if it has one
}

var errRecord = errors.New("dataflow: a record of the history is damaged")

// Encode appends the record.
func (r *Record) Encode(dst []byte) []byte {
	dst = append(dst, r.Kind)
	dst = binary.AppendUvarint(dst, uint64(r.Op))
	dst = binary.AppendUvarint(dst, r.Nonce)
	dst = appendBytes(dst, []byte(r.Source))
	dst = binary.AppendUvarint(dst, r.Number)
	dst = appendBytes(dst, r.Key)
	return append(dst, r.Value...)
}

// DecodeRecord is the inverse of [Record.Encode]. The record shares data's memory.
func DecodeRecord(data []byte) (r Record, err error) {
	d := decoder{data: data}
	r.Kind = d.byte()
	r.Op = int32(d.uint())
	r.Nonce = d.uint()
	r.Source = string(d.bytes())
	r.Number = d.uint()
	r.Key = d.bytes()
	r.Value = d.data
	return r, d.err
}

func appendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

func flag(is bool) byte {
	if is {
		return 1
	}
	return 0
}

// appendValue appends the length and the encoding of v.
func appendValue[T any](dst []byte, c Codec, v T) ([]byte, error) {
	const room = binary.MaxVarintLen32
	at := len(dst)
	dst = append(dst, make([]byte, room)...)
	var err error
	if isView[T]() {
		view := v
		dst, err = appendView(dst, c, partsOf(&view))
	} else {
		dst, err = c.Append(dst, v)
	}
	if err != nil {
		return dst[:at], fmt.Errorf("dataflow: encoding a %T: %w", v, err)
	}
	n := len(dst) - at - room
	var size [room]byte
	k := binary.PutUvarint(size[:], uint64(n))
	copy(dst[at:], size[:k])
	copy(dst[at+k:], dst[at+room:])
	return dst[:at+k+n], nil
}

// A decoder reads what was appended. After an error everything is zero.
type decoder struct {
	data []byte
	err  error
}

func (d *decoder) fail() {
	if d.err == nil {
		d.err = errRecord
	}
	d.data = nil
}

func (d *decoder) byte() byte {
	if len(d.data) == 0 {
		d.fail()
		return 0
	}
	b := d.data[0]
	d.data = d.data[1:]
	return b
}

func (d *decoder) uint() uint64 {
	x, n := binary.Uvarint(d.data)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.data = d.data[n:]
	return x
}

func (d *decoder) int() int64 {
	x, n := binary.Varint(d.data)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.data = d.data[n:]
	return x
}

func (d *decoder) bytes() []byte {
	n := d.uint()
	if n > uint64(len(d.data)) {
		d.fail()
		return nil
	}
	b := d.data[:n:n]
	d.data = d.data[n:]
	return b
}

// count returns a number of items that follow, each of at least one byte, so that a
// damaged number does not ask for all memory.
func (d *decoder) count() int {
	n := d.uint()
	if n > uint64(len(d.data)) {
		d.fail()
		return 0
	}
	return int(n)
}

// decodeValue reads what appendValue appended.
func decodeValue[T any](d *decoder, c Codec) (v T) {
	b := d.bytes()
	if d.err != nil {
		return v
	}
	if isView[T]() {
		in := &decoder{data: b}
		if loadView(in, c, partsOf(&v)); in.err != nil {
			d.fail()
		}
		return v
	}
	if err := c.Decode(b, &v); err != nil {
		d.err = fmt.Errorf("dataflow: decoding a %T: %w", v, err)
		d.data = nil
	}
	return v
}

// checkType notes that values of T have to be encoded, for the check at the start.
func checkType[T any](op *Op) {
	c := op.site.g.set.Codec
	if c == nil {
		return
	}
	types := []reflect.Type{reflect.TypeFor[T]()}
	if isView[T]() {
		k, v := partsOf(new(T)).Types()
		types = []reflect.Type{k, v}
	}
	for _, t := range types {
		if err := c.Check(t); err != nil {
			Misuse(op.Name, "%v cannot be kept: %v", reflect.TypeFor[T](), err)
		}
	}
}
