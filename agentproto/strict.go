package agentproto

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// scan checks that data is one JSON object within the limits, in one pass over its tokens and without recursion. Later readers of
// data may rely on this: no member occurs twice, at any level and however it is written; every string is valid Unicode; every
// number is within the range of a float64; nothing nests deeper than lim.Depth.
func (f *failure) scan(data []byte, lim Limits) {
	if int64(len(data)) > lim.Bytes {
		f.tooLarge("", "is larger than %d bytes", lim.Bytes)
		return
	}
	dec := newDecoder(data)
	defer dec.release()
	if kind := dec.PeekKind(); kind != '{' && kind != jsontext.KindInvalid {
		f.refuse("", "is not a JSON object")
		return
	}
	members := 0
	for {
		kind := dec.PeekKind()
		if isItem(&dec.Decoder, kind) {
			if members++; members > lim.Members {
				f.refuse("", "has more than %d members and elements", lim.Members)
				return
			}
		}
		switch kind {
		case '"', '0':
			value, err := dec.ReadValue()
			if err != nil {
				f.syntax(err)
				return
			}
			if f.scalar(&dec.Decoder, value, lim); f.err != nil {
				return
			}
		default:
			if _, err := dec.ReadToken(); err != nil {
				f.syntax(err)
				return
			}
		}
		switch depth := dec.StackDepth(); {
		case depth > lim.Depth:
			f.refuse("", "nests deeper than %d", lim.Depth)
			return
		case depth == 0:
			if _, err := dec.ReadToken(); err != io.EOF {
				f.refuse("", "is followed by other data")
			}
			return
		}
	}
}

// isItem reports whether the next token is an element or the name of a member.
func isItem(dec *jsontext.Decoder, next jsontext.Kind) bool {
	if next == '}' || next == ']' {
		return false
	}
	parent, length := dec.StackIndex(dec.StackDepth())
	return parent == '[' || parent == '{' && length%2 == 0
}

// scalar checks a string or number that was just read.
func (f *failure) scalar(dec *jsontext.Decoder, value jsontext.Value, lim Limits) {
	switch {
	case value.Kind() == '"':
		if len(value)-2 > lim.StringBytes {
			f.tooLarge(string(dec.StackPointer()), "has a string of more than %d bytes", lim.StringBytes)
		}
	case len(value) > lim.NumberBytes:
		f.refuse(string(dec.StackPointer()), "is a number of more than %d bytes", lim.NumberBytes)
	case !inRange(string(value)):
		f.refuse(string(dec.StackPointer()), "is a number out of range")
	}
}

// inRange reports whether a JSON number neither overflows a float64 nor is so small that it becomes zero. Peers that read numbers
// as float64 would see another number, and exact arithmetic on it can be made arbitrarily expensive.
func inRange(number string) bool {
	x, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return false
	}
	mantissa, _, _ := strings.Cut(strings.ToLower(number), "e")
	return x != 0 || !strings.ContainsAny(mantissa, "123456789")
}

// syntax records an error of the JSON decoder.
func (f *failure) syntax(err error) {
	var serr *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		f.refuse("", "ends early")
	case !errors.As(err, &serr):
		f.refuse("", "is not valid JSON")
	case errors.Is(err, jsontext.ErrDuplicateName):
		f.refuse(string(serr.JSONPointer), "is there twice")
	default:
		f.refuse(string(serr.JSONPointer), "is not valid JSON at byte %d: %s", serr.ByteOffset,
			strings.TrimPrefix(serr.Err.Error(), "jsontext: "))
	}
}

// splitObject returns the members of an object that passed scan. The values share its memory.
func splitObject(data []byte) map[string]jsontext.Value {
	members := make(map[string]jsontext.Value, 8)
	walkValues(data, func(dec *jsontext.Decoder) {
		name, _ := dec.ReadToken()
		key := name.String()
		members[key] = nextValue(dec, data)
	})
	return members
}

// elements returns the elements of an array that passed scan. The values share its
// memory. The result is never nil.
func elements(data []byte) []jsontext.Value {
	list := []jsontext.Value{}
	walkValues(data, func(dec *jsontext.Decoder) { list = append(list, nextValue(dec, data)) })
	return list
}

// walkValues calls f before each member or element of a valid object or array.
func walkValues(data []byte, f func(*jsontext.Decoder)) {
	dec := newDecoder(data)
	defer dec.release()
	dec.ReadToken()
	for kind := dec.PeekKind(); kind != '}' && kind != ']' && kind != jsontext.KindInvalid; kind = dec.PeekKind() {
		f(&dec.Decoder)
	}
}

// A reusedDecoder reads the tokens of a text. Decoders are used again, since each message is read by several, and a new one allocates
// what it needs to find members that occur twice.
type reusedDecoder struct {
	jsontext.Decoder
	data bytes.Buffer // the decoder reads its bytes in place
}

var decoders = sync.Pool{New: func() any { return new(reusedDecoder) }}

// newDecoder returns a decoder of data, which has to be released.
func newDecoder(data []byte) *reusedDecoder {
	d := decoders.Get().(*reusedDecoder)
	d.data = *bytes.NewBuffer(data)
	d.Reset(&d.data)
	return d
}

// release gives the decoder back, without the data.
func (d *reusedDecoder) release() {
	d.data = bytes.Buffer{}
	d.Reset(&d.data)
	decoders.Put(d)
}

// nextValue reads a value and returns it as a part of data, because the decoder's own copy is reused.
func nextValue(dec *jsontext.Decoder, data []byte) jsontext.Value {
	value, err := dec.ReadValue()
	if err != nil {
		return jsontext.Value("null") // not after scan
	}
	end := int(dec.InputOffset())
	return data[end-len(value) : end : end]
}

// canonical returns a copy of a valid value in compact form. Numbers and the order of members stay unchanged.
func canonical(value jsontext.Value) jsontext.Value {
	value = value.Clone()
	if err := value.Format(); err != nil {
		panic("agentproto: canonical: " + err.Error()) // not after scan
	}
	return value
}
