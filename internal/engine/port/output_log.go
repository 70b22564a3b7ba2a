package port

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// DescribeFed implements [engine.Output].
func (out *Output[T]) DescribeFed(in *codec.Decoder, c codec.Codec, d *codec.Describer) {
	first := in.Uint()
	for i := range in.Count() {
		d.Entry("%d: %+v", first+uint64(i), codec.DecodeValue[T](in, c))
	}
}

// DescribeFed implements [engine.Output].
func (out *EntryOutput[K, V]) DescribeFed(in *codec.Decoder, c codec.Codec, d *codec.Describer) {
	for range in.Count() {
		d.Entry("%v: taken", codec.DecodeValue[K](in, c))
	}
	for range in.Count() {
		k := codec.DecodeValue[K](in, c)
		d.Entry("%v: %+v", k, codec.DecodeValue[V](in, c))
	}
	for range in.Count() {
		d.Entry("%v: dropped", codec.DecodeValue[K](in, c))
	}
}

// DescribeFed implements [engine.Output].
func (out *ValueOutput[T]) DescribeFed(in *codec.Decoder, c codec.Codec, d *codec.Describer) {
	if in.Byte() == 1 {
		d.Entry("%+v", codec.DecodeValue[T](in, c))
	} else {
		d.Entry("nothing")
	}
}

// The encoding of a step holds, for each output that changed, the number of elements and the elements. For a stream, the number
// of its first element precedes them, counted from the first one ever, so that readers can say how far they are. For entries
// there are the keys that were taken before the step, the entries, and the keys that were dropped.

// Emit appends the elements of the step, and keeps them until they are read.
func (out *Output[T]) Emit(dst []byte, c codec.Codec) (_ []byte, err error) {
	if len(out.step) == 0 {
		return dst, nil
	}
	dst = binary.AppendUvarint(dst, out.first+uint64(len(out.buf)))
	dst = binary.AppendUvarint(dst, uint64(len(out.step)))
	for _, x := range out.step {
		if dst, err = codec.AppendValue(dst, c, x); err != nil {
			return dst, err
		}
	}
	out.buf = append(out.buf, out.step...)
	out.saved.Came(len(out.step))
	clear(out.step)
	out.step = out.step[:0]
	return dst, nil
}

// Adopt implements [engine.Output].
func (out *Output[T]) Adopt(d *codec.Decoder, c codec.Codec) {
	if first := d.Uint(); first != out.first+uint64(len(out.buf)) {
		d.Fail()
	}
	for range d.Count() {
		out.buf = append(out.buf, codec.DecodeValue[T](d, c))
		out.saved.Came(1)
	}
}

// Acknowledge drops elements that were read.
func (out *Output[T]) Acknowledge(r *codec.Record, _ codec.Codec) (bool, error) {
	if r.Kind != codec.KindRead {
		return false, fmt.Errorf("%w: it is of kind %d, for %s", codec.ErrRecord, r.Kind, out.op)
	}
	if r.Number <= out.first || r.Number > out.first+uint64(len(out.buf)) {
		return true, nil
	}
	out.saved.Go(int(r.Number - out.first))
	n := copy(out.buf, out.buf[r.Number-out.first:])
	clear(out.buf[n:])
	out.buf, out.first = out.buf[:n], r.Number
	return true, nil
}

// GivenBy returns how many elements a partition has given. Owned is false if this process does not run the partition.
func (out *Output[T]) GivenBy(ctx context.Context, partition int) (n uint64, owned bool, err error) {
	if out.remote != nil {
		return out.remote.Given(ctx, out.op.Index, partition)
	}
	if partition != 0 {
		return 0, false, nil
	}
	return out.Figures().Given, true, nil
}

// Full implements [engine.Output].
func (out *Output[T]) Full() bool { return len(out.buf) > out.bound }

// Emit appends the entries of the step, and keeps them until they are taken.
func (out *EntryOutput[K, V]) Emit(dst []byte, c codec.Codec) (_ []byte, err error) {
	if !out.changed() {
		out.listed = false
		return dst, nil
	}
	if dst, err = out.appendKeys(dst, c, out.taken.K); err != nil {
		return dst, err
	}
	dst = binary.AppendUvarint(dst, uint64(len(out.step.K)))
	for i, k := range out.step.K {
		at := 0
		if dst, err = codec.AppendValue(dst, c, k); err == nil {
			at = len(dst)
			dst, err = codec.AppendValue(dst, c, out.step.V[i])
		}
		if err != nil {
			return dst, &engine.EntryError{Key: k, Err: err}
		}
		if out.entries.Packs() {
			out.packed = append(out.packed, string((&codec.Decoder{Data: dst[at:]}).Bytes()))
		}
	}
	if dst, err = out.appendKeys(dst, c, out.gone.K); err != nil {
		return dst, err
	}
	out.gave = slices.Clone(out.packed)
	out.Release()
	return dst, nil
}

// Adopt implements [engine.Output].
func (out *EntryOutput[K, V]) Adopt(d *codec.Decoder, c codec.Codec) {
	out.Feed(d, c, 0)
	out.Release()
}

func (out *EntryOutput[K, V]) appendKeys(dst []byte, c codec.Codec, ks []K) (_ []byte, err error) {
	dst = binary.AppendUvarint(dst, uint64(len(ks)))
	for _, k := range ks {
		if dst, err = codec.AppendValue(dst, c, k); err != nil {
			return dst, fmt.Errorf("%s, key %v: %w", out.op, k, err)
		}
	}
	return dst, nil
}

// Acknowledge gives an entry to the first caller that asks to take it. It reports false if there is no such entry.
func (out *EntryOutput[K, V]) Acknowledge(r *codec.Record, c codec.Codec) (bool, error) {
	var k K
	if r.Kind != codec.KindTaken {
		return false, fmt.Errorf("%w: it is of kind %d, for %s", codec.ErrRecord, r.Kind, out.op)
	}
	if err := c.Decode(r.Key, &k); err != nil {
		return false, fmt.Errorf("dataflow: decoding a key %T for %s: %w", k, out.op, err)
	}
	h := out.hash.Hash(k)
	if !out.entries.Delete(k, h) {
		return false, nil
	}
	out.changing()
	engine.AppendEntry(&out.taken, true, k, struct{}{}, h)
	return true, nil
}

// Kept implements [engine.Output].
func (out *Output[T]) Kept(dst []byte, c codec.Codec) (_ []byte, err error) {
	if len(out.buf) == 0 {
		return dst, nil
	}
	dst = binary.AppendUvarint(dst, out.first)
	dst = binary.AppendUvarint(dst, uint64(len(out.buf)))
	for _, x := range out.buf {
		if dst, err = codec.AppendValue(dst, c, x); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// Kept implements [engine.Output].
func (out *EntryOutput[K, V]) Kept(dst []byte, c codec.Codec) (_ []byte, err error) {
	if out.entries.Len() == 0 {
		return dst, nil
	}
	dst = binary.AppendUvarint(dst, 0) // taken
	dst = binary.AppendUvarint(dst, uint64(out.entries.Len()))
	for k := range out.entries.Keys() {
		if dst, err = codec.AppendValue(dst, c, k); err != nil {
			return dst, err
		}
		if dst, _, err = out.entries.AppendValue(dst, k, out.hash.Hash(k)); err != nil {
			return dst, err
		}
	}
	return binary.AppendUvarint(dst, 0), nil // dropped
}

// Lookup implements [engine.Output].
func (out *EntryOutput[K, V]) Lookup(key []byte, c codec.Codec) ([]byte, bool, error) {
	var k K
	if err := c.Decode(key, &k); err != nil {
		return nil, false, err
	}
	value, ok, err := out.entries.AppendValue(nil, k, out.hash.Hash(k))
	if !ok || err != nil {
		return nil, false, err
	}
	return (&codec.Decoder{Data: value}).Bytes(), true, nil
}

// Feed implements [engine.Output].
func (out *Output[T]) Feed(d *codec.Decoder, c codec.Codec, source int) {
	first := d.Uint()
	n := d.Count()
	for range n {
		out.step = append(out.step, codec.DecodeValue[T](d, c))
	}
	if d.Err != nil {
		return
	}
	// Elements that are fed again after a change of owners and were not read yet are already here.
	if have := out.fed[source]; have > first {
		again := int(min(have-first, uint64(n)))
		out.step = slices.Delete(out.step, 0, again)
		first, n = first+uint64(again), n-again
	}
	out.fresh = mark{source: source, number: first + uint64(n), left: n}
}

// Feed implements [engine.Output].
func (out *EntryOutput[K, V]) Feed(d *codec.Decoder, c codec.Codec, _ int) {
	out.feedKeys(d, c, d.Count(), &out.taken)
	for i := range d.Count() {
		k := codec.DecodeValue[K](d, c)
		data := d.Data
		v := codec.DecodeValue[V](d, c)
		if d.Err != nil {
			break
		}
		if out.entries.Packs() {
			packed, err := out.packedOf(i, (&codec.Decoder{Data: data}).Bytes(), c, &v)
			if err != nil {
				d.Err = err
				break
			}
			out.packed = append(out.packed, packed)
		}
		out.step.K = append(out.step.K, k)
		out.step.V = append(out.step.V, v)
		out.step.H = append(out.step.H, out.hash.Hash(k))
	}
	out.feedKeys(d, c, d.Count(), &out.gone)
}

// packedOf returns what to keep of value number i of a step: what the location that gave the step keeps, if that is in this
// process, or a copy. If the step was written by a program with another codec, the value is encoded again.
func (out *EntryOutput[K, V]) packedOf(i int, encoded []byte, c codec.Codec, v *V) (string, error) {
	switch {
	case i < len(out.shared) && out.shared[i] == string(encoded):
		return out.shared[i], nil
	case !codec.Same(c, out.entries.Codec()):
		encoded = nil
	}
	return out.entries.Pack(v, encoded)
}

func (out *EntryOutput[K, V]) feedKeys(d *codec.Decoder, c codec.Codec, n int, to *engine.Columns[K, struct{}]) {
	for range n {
		k := codec.DecodeValue[K](d, c)
		if d.Err != nil {
			break
		}
		engine.AppendEntry(to, true, k, struct{}{}, out.hash.Hash(k))
	}
}

// A foundEntry is an entry that was found in the history. It is not kept, because this process would not learn that it was taken.
type foundEntry[K comparable, V any] struct {
	k K
	h uint64
	v V
}

// Found implements [engine.Output].
func (out *EntryOutput[K, V]) Found(key, value []byte, c codec.Codec) error {
	var x foundEntry[K, V]
	if err := c.Decode(key, &x.k); err != nil {
		return fmt.Errorf("dataflow: decoding a key %T: %w", x.k, err)
	}
	if err := c.Decode(value, &x.v); err != nil {
		return fmt.Errorf("dataflow: decoding a %T of key %v: %w", x.v, x.k, err)
	}
	x.h = out.hash.Hash(x.k)
	out.passing = append(out.passing, x)
	return nil
}

// Whole implements [engine.Output].
func (out *EntryOutput[K, V]) Whole(of func(op *engine.Op, key []byte) bool, c codec.Codec) (changed bool, err error) {
	out.mu.Lock()
	defer out.mu.Unlock()
	was := out.changed()
	has := keyed.NewTable[K, struct{}]()
	for i, k := range out.step.K {
		has.Put(k, out.step.H[i])
	}
	for k := range out.entries.Keys() {
		h := out.hash.Hash(k)
		if has.Get(k, h) != nil {
			continue
		}
		key, err := c.Append(nil, k)
		if err != nil {
			return false, fmt.Errorf("%s, key %v: %w", out.op, k, err)
		}
		if of(out.op, key) {
			engine.AppendEntry(&out.taken, true, k, struct{}{}, h)
		}
	}
	return !was && out.changed(), nil
}

// An unreadState saves the unread elements of an output.
type unreadState[T any] struct {
	*state.Queue[T]
	out  *Output[T]
	kind string
}

func (s unreadState[T]) Kind() string { return s.kind }

func (s unreadState[T]) Describe(w *codec.Describer) {
	for i, x := range s.out.buf {
		w.Entry("unread %d: %+v", s.out.first+uint64(i), x)
	}
}

func (s unreadState[T]) Size() (int, uint64) {
	var x T
	return len(s.out.buf), uint64(cap(s.out.buf)) * uint64(unsafe.Sizeof(x))
}
