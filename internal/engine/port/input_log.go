package port

import (
	"fmt"

	"github.com/millrace/millrace/internal/engine/codec"
)

// Accept lets an element of the history wait.
func (in *Input[T]) Accept(r *codec.Record, c codec.Codec) (bool, error) {
	var x T
	if r.Kind != codec.KindValue {
		return false, fmt.Errorf("%w: it is of kind %d, for %s", codec.ErrRecord, r.Kind, in.Op)
	}
	if err := c.Decode(r.Value, &x); err != nil {
		return false, fmt.Errorf("dataflow: decoding a %T for %s: %w", x, in.Op, err)
	}
	in.buf = append(in.buf, x)
	in.Accepted(in, 1)
	return true, nil
}

// Accept lets an entry of the history wait. Of a key that may come only once, the
// first record of the history counts.
func (in *KeyedInput[K, V]) Accept(r *codec.Record, c codec.Codec) (bool, error) {
	var k K
	var v V
	if r.Kind == codec.KindHas {
		return in.answerHas(r, c)
	}
	if r.Kind != codec.KindValue {
		return false, fmt.Errorf("%w: it is of kind %d, for %s", codec.ErrRecord, r.Kind, in.Op)
	}
	if err := decodeEntry(r, c, &k, &v); err != nil {
		return false, fmt.Errorf("%w for %s", err, in.Op)
	}
	var h uint64
	if in.hashed {
		h = in.hash.Hash(k)
	}
	if in.seen != nil {
		if _, added := in.seen.Put(k, h); !added {
			return false, nil
		}
	}
	in.buf.Append(in.hashed, k, v, h)
	in.Accepted(in, 1)
	return true, nil
}

func decodeEntry[K comparable, V any](r *codec.Record, c codec.Codec, k *K, v *V) error {
	if err := c.Decode(r.Key, k); err != nil {
		return fmt.Errorf("dataflow: decoding a key %T: %w", *k, err)
	}
	if err := c.Decode(r.Value, v); err != nil {
		return fmt.Errorf("dataflow: decoding a %T of key %v: %w", *v, *k, err)
	}
	return nil
}
