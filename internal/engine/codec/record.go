package codec

import (
	"encoding/binary"
	"errors"
	"strings"
)

// A LastSeen is the last record taken from a source, for deduplication. It includes whether the record was refused, because a
// repeat gets the same answer.
type LastSeen struct {
	Number, Minor uint64
	Refused       bool
}

// After reports whether a record comes after another one of its source.
func (l LastSeen) After(last LastSeen) bool {
	return l.Number > last.Number || l.Number == last.Number && l.Minor > last.Minor
}

// Seen returns what to remember of a record that is taken.
func (r *Record) Seen() LastSeen { return LastSeen{Number: r.Number, Minor: r.Minor} }

// The source of a record that its sender has numbered begins with one of these; the key, or the sender, follows. Each input
// counts its sources separately.
const (
	InputSource = "\x00input "
	NamedSource = "\x00sender "
)

// EdgeSource is the prefix of the sources with which edges between locations number what they move. No sender would use such a
// name.
const EdgeSource = "\x00link"

// forAll is the Minor of a record of an edge that is for all keys, such as a mark. Records of earlier versions do not have it.
const forAll = 1

// ToAll says that a record of an edge is for all keys of its destination. Its own key has no meaning.
func (r *Record) ToAll() { r.Minor = forAll }

// IsToAll reports whether ToAll was called.
func (r *Record) IsToAll() bool { return r.Minor == forAll && strings.HasPrefix(r.Source, EdgeSource) }

// In a history, a record that came in is encoded as its kind, the operator of the input, its sender, and its content. All lengths
// and numbers are varints.

// kinds of records
const (
	KindValue     = iota // an element or entry of an input
	KindAnswer           // what an asynchronous call returned
	KindTaken            // an entry of an output was taken
	KindRead             // elements of an output were read, counted from the first one ever
	KindHas              // asks whether an input has a key: refused if it has, otherwise without effect
	KindRetry            // handle again what was quarantined under a number
	KindDrop             // forget what was quarantined under a number
	KindFailed           // an asynchronous call panicked, or its answer cannot be kept
	KindHeldTimer        // a function failed on a timer, which is held now
)

// Bits of the kind.
const (
	byName   = 0x80 // the operator is given by name
	hasMinor = 0x40 // a minor number follows the number
)

// A Record is one record that came in.
type Record struct {
	Op     int32  // number of the operator
	Name   string // identity of the operator, if the sender does not know its number; otherwise empty
	Kind   byte
	Nonce  uint64 // identifies a record whose sender waits to learn whether it was refused; otherwise 0
	Source string // of a sender that numbers its records; otherwise empty
	Number uint64 // of the record at its source, or how far a reader is
	Minor  uint64 // orders records of a source that have the same number
	Key    []byte // the encoded key, if the record has one
	Value  []byte // the encoded value, if it has one
}

var ErrRecord = errors.New("dataflow: a record of the history is damaged")

// Encode appends the record.
func (r *Record) Encode(dst []byte) []byte {
	kind := r.Kind
	if r.Minor != 0 {
		kind |= hasMinor
	}
	if r.Name != "" {
		dst = AppendBytes(append(dst, kind|byName), []byte(r.Name))
	} else {
		dst = binary.AppendUvarint(append(dst, kind), uint64(r.Op))
	}
	dst = binary.AppendUvarint(dst, r.Nonce)
	dst = AppendBytes(dst, []byte(r.Source))
	dst = binary.AppendUvarint(dst, r.Number)
	if r.Minor != 0 {
		dst = binary.AppendUvarint(dst, r.Minor)
	}
	dst = AppendBytes(dst, r.Key)
	return append(dst, r.Value...)
}

// Size returns approximately how many bytes Encode appends.
func (r *Record) Size() int {
	const fields = 1 + 5*binary.MaxVarintLen32 // if the numbers are small
	return fields + len(r.Name) + len(r.Source) + len(r.Key) + len(r.Value)
}

// DecodeRecord is the inverse of [Record.Encode]. The record shares data's memory.
func DecodeRecord(data []byte) (Record, error) { return DecodeRecordBehind(data, "") }

// DecodeRecordBehind is [DecodeRecord] for a record that follows one with the given source. Consecutive records often have the
// same source, which is then not copied again.
func DecodeRecordBehind(data []byte, source string) (r Record, err error) {
	d := Decoder{Data: data}
	r.Kind = d.Byte()
	minor := r.Kind&hasMinor != 0
	r.Kind &^= hasMinor
	if r.Kind&byName != 0 {
		r.Kind &^= byName
		r.Name = string(d.Bytes())
	} else {
		r.Op = int32(d.Uint())
	}
	r.Nonce = d.Uint()
	if b := d.Bytes(); string(b) != source {
		source = string(b)
	}
	r.Source = source
	r.Number = d.Uint()
	if minor {
		r.Minor = d.Uint()
	}
	r.Key = d.Bytes()
	r.Value = d.Data
	return r, d.Err
}

// AppendBytes appends the length of b and b.
func AppendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// AppendString is [AppendBytes] of a string.
func AppendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// Flag returns 1 for true, as records have it.
func Flag(is bool) byte {
	if is {
		return 1
	}
	return 0
}
