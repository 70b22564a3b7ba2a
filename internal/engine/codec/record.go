package codec

import (
	"encoding/binary"
	"errors"
)

// A LastSeen is the last record taken from a source, for deduplication: whether a repeat was
// refused has to be said again.
type LastSeen struct {
	Number, Minor uint64
	Refused       bool
}

// After reports whether a record comes after another one of its source.
func (l LastSeen) After(last LastSeen) bool {
	return l.Number > last.Number || l.Number == last.Number && l.Minor > last.Minor
}

// Seen returns what is remembered of a record that is taken.
func (r *Record) Seen() LastSeen { return LastSeen{Number: r.Number, Minor: r.Minor} }

// Sources of records that their senders have numbered begin with one of these; the key, or the
// sender, follows. They count for each input by itself.
const (
	InputSource = "\x00input "
	NamedSource = "\x00sender "
)

// EdgeSource is what the sources begin with by which the edges between locations number what
// they move. No sender would call itself that.
const EdgeSource = "\x00link"

// A record that came in, as the history keeps it, is what kind of record it is, the
// operator of the input, who sent it, and its content. All lengths and numbers are
// varints.

// kinds of records
const (
	KindValue  = iota // an element or entry of an input
	KindAnswer        // what an asynchronous call returned
	KindTaken         // an entry of an output was taken
	KindRead          // elements of an output were read, counted from the first one ever
	KindHas           // whether an input has a key: refused if it has, and without effect
	KindRetry         // what was quarantined under a number is to be handled again
	KindDrop          // what was quarantined under a number is to be forgotten
	KindFailed        // an asynchronous call panicked, or its answer cannot be kept
	KindRung          // a function failed on a timer, which is held
)

// Bits of the kind.
const (
	byName   = 0x80 // the operator is named
	hasMinor = 0x40 // the number is followed by a second one
)

// A Record is one record that came in.
type Record struct {
	Op     int32  // number of the operator
	Name   string // identity of the operator, of a sender that does not know the number; else empty
	Kind   byte
	Nonce  uint64 // names a record whose sender waits to hear whether it was refused; else 0
	Source string // of a sender that numbers its records, else empty
	Number uint64 // of the record at its source, or how far a reader is
	Minor  uint64 // among those of its source with that number, of a source that has several
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

// Size returns about how many bytes Encode appends.
func (r *Record) Size() int {
	const fields = 1 + 5*binary.MaxVarintLen32 // where they are small numbers
	return fields + len(r.Name) + len(r.Source) + len(r.Key) + len(r.Value)
}

// DecodeRecord is the inverse of [Record.Encode]. The record shares data's memory.
func DecodeRecord(data []byte) (Record, error) { return DecodeRecordBehind(data, "") }

// DecodeRecordBehind is [DecodeRecord] of one behind another one, which had a source: many come from the same one, which is not copied
// again.
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
