package engine

import "fmt"

// takeRecord accepts an element of the history.
func (in *Inlet[T]) takeRecord(r *Record, c Codec) (bool, error) {
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

// takeRecord accepts an entry of the history. Of a key that may come only once, the
// first record of the history counts.
func (in *KInlet[K, V]) takeRecord(r *Record, c Codec) (bool, error) {
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
	in.append(k, v, h)
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

// feedBack makes what a cycle was given the next that is taken.
func (c *Cycle[T]) feedBack() {
	c.in.buf = append(c.in.buf, c.step...)
	if len(c.step) > 0 {
		c.in.accepted(c.in, len(c.step))
	}
	clear(c.step)
	c.step = c.step[:0]
}
