package engine

import (
	"encoding/binary"

	"github.com/millrace/millrace/internal/cow"
	"github.com/millrace/millrace/internal/seal"
)

// A viewed is a pointer to a view of package dataflow. A codec sees only what is
// exported of a type, so the form of a view is made here: how many entries there are,
// and each key and value as the codec makes them.
type viewed interface {
	Unseal(seal.Key) cow.Parts
}

func appendView(dst []byte, c Codec, view viewed) (_ []byte, err error) {
	parts := view.Unseal(seal.Key{})
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

func loadView(d *decoder, c Codec, view viewed) {
	n := d.count()
	view.Unseal(seal.Key{}).Fill(n, func(k, v any) bool {
		for _, p := range []any{k, v} {
			if b := d.bytes(); d.err == nil && c.Decode(b, p) != nil {
				d.fail()
			}
		}
		return d.err == nil
	})
}
