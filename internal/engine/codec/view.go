package codec

import (
	"encoding/binary"
	"reflect"

	"github.com/millrace/millrace/internal/cow"
	"github.com/millrace/millrace/internal/seal"
)

// IsView reports whether p, which may be nil, is a pointer to a view of package dataflow.
func IsView(p any) bool {
	held := seal.Holds(p)
	return held != nil && reflect.PointerTo(held).Implements(reflect.TypeFor[cow.Parts]())
}

// PartsOf returns the content of the view of package dataflow that view points to.
func PartsOf(view any) cow.Parts { return seal.Untyped(view).(cow.Parts) }

// A codec sees only the exported parts of a type, so views are encoded here: the number of
// entries, then each key and value as the codec encodes them.

func appendView(dst []byte, c Codec, parts cow.Parts) (_ []byte, err error) {
	dst = binary.AppendUvarint(dst, uint64(parts.Len()))
	part := func(x any) {
		if err == nil {
			dst, err = AppendValue(dst, c, x)
		}
	}
	parts.Each(func(k, v any) bool {
		part(k)
		part(v)
		return err == nil
	})
	return dst, err
}

func loadView(d *Decoder, c Codec, parts cow.Parts) {
	n := d.Count()
	parts.Fill(n, func(k, v any) bool {
		for _, p := range []any{k, v} {
			if b := d.Bytes(); d.Err == nil {
				d.Err = c.Decode(b, p)
			}
		}
		return d.Err == nil
	})
}
