package engine

import (
	"encoding/binary"
	"fmt"
)

// What a step gives is, for each output that has something: the number of the
// operator, how many elements there are, and the elements. Of a stream the number of
// its first element comes before, counted from the first one ever, so that readers
// can say how far they are.

// emit appends the elements of the step, and keeps them until they were read.
func (out *Outlet[T]) emit(dst []byte, c Codec) (_ []byte, err error) {
	if len(out.step) == 0 {
		return dst, nil
	}
	dst = binary.AppendUvarint(dst, uint64(out.op.index))
	dst = binary.AppendUvarint(dst, out.first+uint64(len(out.buf)))
	dst = binary.AppendUvarint(dst, uint64(len(out.step)))
	for _, x := range out.step {
		if dst, err = appendValue(dst, c, x); err != nil {
			return dst, fmt.Errorf("%s: %w", out.op, err)
		}
	}
	out.buf = append(out.buf, out.step...)
	clear(out.step)
	out.step = out.step[:0]
	return dst, nil
}

// acknowledge forgets what was read.
func (out *Outlet[T]) acknowledge(r *Record, _ Codec) (bool, error) {
	if r.Kind != kindRead {
		return false, fmt.Errorf("%w: it is of kind %d, for %s", errRecord, r.Kind, out.op)
	}
	if r.Number <= out.first || r.Number > out.first+uint64(len(out.buf)) {
		return true, nil
	}
	n := copy(out.buf, out.buf[r.Number-out.first:])
	clear(out.buf[n:])
	out.buf, out.first = out.buf[:n], r.Number
	return true, nil
}

func (out *Outlet[T]) full() bool { return len(out.buf) > out.bound }

// emit appends the entries of the step, and keeps them until they are taken.
func (out *KOutlet[K, V]) emit(dst []byte, c Codec) (_ []byte, err error) {
	if len(out.step.k) == 0 {
		return dst, nil
	}
	dst = binary.AppendUvarint(dst, uint64(out.op.index))
	dst = binary.AppendUvarint(dst, uint64(len(out.step.k)))
	for i, k := range out.step.k {
		if dst, err = appendValue(dst, c, k); err == nil {
			dst, err = appendValue(dst, c, out.step.v[i])
		}
		if err != nil {
			return dst, fmt.Errorf("%s, key %v: %w", out.op, k, err)
		}
	}
	out.release()
	return dst, nil
}

// acknowledge forgets an entry that was taken.
func (out *KOutlet[K, V]) acknowledge(r *Record, c Codec) (bool, error) {
	var k K
	if r.Kind != kindTaken {
		return false, fmt.Errorf("%w: it is of kind %d, for %s", errRecord, r.Kind, out.op)
	}
	if err := c.Decode(r.Key, &k); err != nil {
		return false, fmt.Errorf("dataflow: decoding a key %T for %s: %w", k, out.op, err)
	}
	return out.entries.Delete(k, out.hash.Hash(k)), nil
}

// emit appends the value at the end of the step.
func (out *CellOutlet[T]) emit(dst []byte, c Codec) (_ []byte, err error) {
	out.dirty = false
	dst = binary.AppendUvarint(dst, uint64(out.op.index))
	if dst, err = appendCell(dst, c, out.cell.value, out.cell.set); err != nil {
		return dst, fmt.Errorf("%s: %w", out.op, err)
	}
	return dst, nil
}

// Outputs appends what the outputs of the location keep: what nobody has read or taken
// yet, and the values that are there now. It has the form of what a step gives.
func (l *Leader) Outputs(dst []byte) (_ []byte, err error) {
	for _, out := range l.site.outlets {
		if dst, err = out.kept(dst, l.site.g.set.Codec); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (out *Outlet[T]) kept(dst []byte, c Codec) (_ []byte, err error) {
	if len(out.buf) == 0 {
		return dst, nil
	}
	dst = binary.AppendUvarint(dst, uint64(out.op.index))
	dst = binary.AppendUvarint(dst, out.first)
	dst = binary.AppendUvarint(dst, uint64(len(out.buf)))
	for _, x := range out.buf {
		if dst, err = appendValue(dst, c, x); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (out *KOutlet[K, V]) kept(dst []byte, c Codec) (_ []byte, err error) {
	if out.entries.Len() == 0 {
		return dst, nil
	}
	dst = binary.AppendUvarint(dst, uint64(out.op.index))
	dst = binary.AppendUvarint(dst, uint64(out.entries.Len()))
	for k, v := range out.entries.All() {
		if dst, err = appendValue(dst, c, k); err != nil {
			return dst, err
		}
		if dst, err = appendValue(dst, c, *v); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (out *CellOutlet[T]) kept(dst []byte, c Codec) ([]byte, error) { return out.emit(dst, c) }

// Lookup returns the encoded value that an output of entries has under an encoded key.
func (l *Leader) Lookup(op int32, key []byte) (value []byte, ok bool, err error) {
	out, err := l.site.output(op)
	if err != nil {
		return nil, false, err
	}
	return out.lookup(key, l.site.g.set.Codec)
}

func (out *KOutlet[K, V]) lookup(key []byte, c Codec) ([]byte, bool, error) {
	var k K
	if err := c.Decode(key, &k); err != nil {
		return nil, false, err
	}
	p := out.entries.Get(k, out.hash.Hash(k))
	if p == nil {
		return nil, false, nil
	}
	value, err := c.Append(nil, *p)
	return value, err == nil, err
}
