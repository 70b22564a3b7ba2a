package engine

import "fmt"

// accept lets an element of the history wait.
func (in *Inlet[T]) accept(r *Record, c Codec) (bool, error) {
	var x T
	if r.Kind != kindValue {
		return false, fmt.Errorf("%w: it is of kind %d, for %s", errRecord, r.Kind, in.op)
	}
	if err := c.Decode(r.Value, &x); err != nil {
		return false, fmt.Errorf("dataflow: decoding a %T for %s: %w", x, in.op, err)
	}
	in.buf = append(in.buf, x)
	in.accepted(in, 1)
	return true, nil
}

// accept lets an entry of the history wait. Of a key that may come only once, the
// first record of the history counts.
func (in *KInlet[K, V]) accept(r *Record, c Codec) (bool, error) {
	var k K
	var v V
	if r.Kind == kindHas {
		return in.answerHas(r, c)
	}
	if r.Kind != kindValue {
		return false, fmt.Errorf("%w: it is of kind %d, for %s", errRecord, r.Kind, in.op)
	}
	if err := decodeEntry(r, c, &k, &v); err != nil {
		return false, fmt.Errorf("%w for %s", err, in.op)
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
	in.buf.append(in.hashed, k, v, h)
	in.accepted(in, 1)
	return true, nil
}

func decodeEntry[K comparable, V any](r *Record, c Codec, k *K, v *V) error {
	if err := c.Decode(r.Key, k); err != nil {
		return fmt.Errorf("dataflow: decoding a key %T: %w", *k, err)
	}
	if err := c.Decode(r.Value, v); err != nil {
		return fmt.Errorf("dataflow: decoding a %T of key %v: %w", *v, *k, err)
	}
	return nil
}
