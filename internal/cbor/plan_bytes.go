package cbor

import (
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"time"
	"unsafe"

	fx "github.com/fxamacker/cbor/v2"
)

// Major types of CBOR, a tag and three simple values.
const (
	majorNegative = 1 << 5
	majorBytes    = 2 << 5
	majorText     = 3 << 5
	majorArray    = 4 << 5
	majorMap      = 5 << 5
	tagTime       = 6 << 5 // with the number 0: a time as text
	isFalse       = 0xf4
	isTrue        = 0xf5
	isNull        = 0xf6
	isUndefined   = 0xf7
)

// appendHead appends a major type and a number, in as few bytes as possible.
func appendHead(dst []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(dst, major|byte(n))
	case n <= math.MaxUint8:
		return append(dst, major|24, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, major|25), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, major|27), n)
}

// readHead is the inverse of appendHead. It reports false for data that appendHead does not produce.
func readHead(data []byte) (major byte, n uint64, rest []byte, ok bool) {
	if len(data) == 0 {
		return 0, 0, nil, false
	}
	major, n, rest = data[0]&0xe0, uint64(data[0]&0x1f), data[1:]
	if n < 24 {
		return major, n, rest, true
	}
	least := uint64(24)
	switch size := 1 << (n - 24); {
	case n > 27 || len(rest) < size:
		return 0, 0, nil, false
	case size == 1:
		n = uint64(rest[0])
	case size == 2:
		n, least = uint64(binary.BigEndian.Uint16(rest)), math.MaxUint8+1
	case size == 4:
		n, least = uint64(binary.BigEndian.Uint32(rest)), math.MaxUint16+1
	default:
		n, least = binary.BigEndian.Uint64(rest), math.MaxUint32+1
	}
	return major, n, rest[1<<(data[0]&0x1f-24):], n >= least
}

// append appends the encoding of the value at an address, which has the plan's type.
func (p *plan) append(dst []byte, at unsafe.Pointer) ([]byte, error) {
	switch p.shape {
	case aString:
		s := *(*string)(at)
		return append(appendHead(dst, majorText, uint64(len(s))), s...), nil
	case anInt:
		if n := p.int(at); n < 0 {
			return appendHead(dst, majorNegative, uint64(^n)), nil
		} else {
			return appendHead(dst, 0, uint64(n)), nil
		}
	case anUint:
		return appendHead(dst, 0, p.uint(at)), nil
	case aBool:
		if *(*bool)(at) {
			return append(dst, isTrue), nil
		}
		return append(dst, isFalse), nil
	case aStruct:
		return p.appendFields(dst, at)
	case aTime:
		return appendTime(dst, (*time.Time)(at))
	case another:
		return appendOther(dst, reflect.NewAt(p.of, at).Elem().Interface())
	}
	pointer := *(*unsafe.Pointer)(at) // a slice begins with one
	if pointer == nil {
		return append(dst, isNull), nil
	}
	switch p.shape {
	case aPointer:
		return p.elem.append(dst, pointer)
	case bytesOrNil:
		b := *(*[]byte)(at)
		return append(appendHead(dst, majorBytes, uint64(len(b))), b...), nil
	}
	n := len(*(*[]struct{})(at))
	dst = appendHead(dst, majorArray, uint64(n))
	for i := range n {
		var err error
		if dst, err = p.elem.append(dst, unsafe.Add(pointer, uintptr(i)*p.elem.size)); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (p *plan) int(at unsafe.Pointer) int64 {
	switch p.size {
	case 1:
		return int64(*(*int8)(at))
	case 2:
		return int64(*(*int16)(at))
	case 4:
		return int64(*(*int32)(at))
	}
	return *(*int64)(at)
}

func (p *plan) uint(at unsafe.Pointer) uint64 {
	switch p.size {
	case 1:
		return uint64(*(*uint8)(at))
	case 2:
		return uint64(*(*uint16)(at))
	case 4:
		return uint64(*(*uint32)(at))
	}
	return *(*uint64)(at)
}

func (p *plan) appendFields(dst []byte, at unsafe.Pointer) (_ []byte, err error) {
	head := len(dst)
	dst = append(dst, majorMap|byte(len(p.fields)))
	for i := range p.fields {
		f := &p.fields[i]
		field := unsafe.Add(at, f.at)
		if f.omit != nil && f.omit(field) {
			dst[head]--
			continue
		}
		if dst, err = f.plan.append(append(dst, f.name...), field); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// appendTime appends a time, with its nanoseconds and the offset of its zone.
func appendTime(dst []byte, t *time.Time) ([]byte, error) {
	if t.IsZero() {
		return append(dst, isNull), nil
	}
	if !expressible(t) {
		utc := t.UTC()
		t = &utc
	}
	if err := checkYear(t); err != nil {
		return dst, err
	}
	var room [64]byte
	text := t.AppendFormat(room[:0], time.RFC3339Nano)
	return append(appendHead(append(dst, tagTime), majorText, uint64(len(text))), text...), nil
}

// decodeFirst has mode decode the first value of data into v, and returns the rest of data.
func decodeFirst(data []byte, v reflect.Value, mode fx.DecMode) (rest []byte, err error) {
	defer caught("decoding", v.Type(), &err)
	if rest, err = mode.UnmarshalFirst(data, v.Addr().Interface()); err == nil {
		shareZones(v)
	}
	return rest, err
}

// decode decodes into v, and returns the rest of data. It reports false if something has another
// encoding. What has no plan is decoded by mode.
func (p *plan) decode(data []byte, v reflect.Value, mode fx.DecMode) (rest []byte, ok bool) {
	if len(data) == 0 {
		return nil, false
	}
	switch p.shape {
	case another:
		rest, err := decodeFirst(data, v, mode)
		return rest, err == nil
	case aStruct:
		return p.decodeFields(data, v, mode)
	case aBool:
		if data[0] != isTrue && data[0] != isFalse {
			return nil, false
		}
		v.SetBool(data[0] == isTrue)
		return data[1:], true
	case aPointer, aSlice, bytesOrNil, aTime:
		if data[0] == isNull {
			v.SetZero()
			return data[1:], true
		}
		if data[0] == isUndefined { // Append never writes it, and it means nil only before a pointer is followed
			return nil, false
		}
	}
	switch p.shape {
	case aPointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return p.elem.decode(data, v.Elem(), mode)
	case aTime:
		if data[0] != tagTime {
			return nil, false
		}
		data = data[1:]
	}
	major, n, rest, ok := readHead(data)
	switch {
	case !ok:
		return nil, false
	case major == majorText && n <= uint64(len(rest)):
		if p.shape == aString {
			v.SetString(string(rest[:n]))
			return rest[n:], true
		}
		if p.shape != aTime {
			return nil, false
		}
		t, err := time.Parse(time.RFC3339, string(rest[:n]))
		v.Set(reflect.ValueOf(inSharedZone(t)))
		return rest[n:], err == nil
	case p.shape == bytesOrNil && major == majorBytes && n <= uint64(len(rest)):
		v.SetBytes(slices.Clone(rest[:n:n]))
		return rest[n:], true
	case p.shape == aSlice && major == majorArray && n <= uint64(len(rest)):
		return p.decodeElements(rest, v, int(n), mode)
	case p.shape == anUint && major == 0 && !v.OverflowUint(n):
		v.SetUint(n)
		return rest, true
	case p.shape == anInt && (major == 0 || major == majorNegative) && n <= math.MaxInt64:
		x := int64(n)
		if major != 0 {
			x = ^x
		}
		if v.OverflowInt(x) {
			return nil, false
		}
		v.SetInt(x)
		return rest, true
	}
	return nil, false
}

func (p *plan) decodeFields(data []byte, v reflect.Value, mode fx.DecMode) (rest []byte, ok bool) {
	if data[0]&0xe0 != majorMap || data[0]&0x1f > mostPlanned {
		return nil, false
	}
	left := data[0] & 0x1f
	data = data[1:]
	for i := range p.fields {
		f := &p.fields[i]
		if left == 0 || len(data) < len(f.name) || string(data[:len(f.name)]) != f.name {
			if f.omit == nil {
				return nil, false
			}
			continue
		}
		if data, ok = f.plan.decode(data[len(f.name):], v.Field(f.index), mode); !ok {
			return nil, false
		}
		left--
	}
	return data, left == 0
}

// fewElements is the number of elements for which memory is allocated at once. So the memory grows
// with the elements that exist, and not with the number that the data claims.
const fewElements = 256

func (p *plan) decodeElements(data []byte, v reflect.Value, n int, mode fx.DecMode) (rest []byte, ok bool) {
	if v.IsNil() || v.Cap() < n || n == 0 {
		few := min(n, fewElements)
		v.Set(reflect.MakeSlice(v.Type(), few, few))
	}
	for i := range n {
		if i == v.Cap() {
			v.Grow(min(n-i, i))
		}
		v.SetLen(i + 1)
		if data, ok = p.elem.decode(data, v.Index(i), mode); !ok {
			return nil, false
		}
	}
	return data, true
}
