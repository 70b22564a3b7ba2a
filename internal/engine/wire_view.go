package engine

import (
	"encoding/binary"

	"github.com/millrace/millrace/internal/cow"
)

// A codec sees only what is exported of a type, so the form of a view is made here: how
// many entries there are, and each key and value as the codec makes them.

func appendView(dst []byte, c Codec, parts cow.Parts) (_ []byte, err error) {
	dst = binary.AppendUvarint(dst, uint64(parts.Len()))
	part := func(x any) {
		if err == nil {
			dst, err = appendValue(dst, c, x)
		}
	}
	parts.Each(func(k, v any) bool {
		part(k)
		part(v)
		return err == nil
	})
	return dst, err
}

func loadView(d *decoder, c Codec, parts cow.Parts) {
	n := d.count()
	parts.Fill(n, func(k, v any) bool {
		for _, p := range []any{k, v} {
			if b := d.bytes(); d.err == nil && c.Decode(b, p) != nil {
				d.fail()
			}
		}
		return d.err == nil
	})
}
