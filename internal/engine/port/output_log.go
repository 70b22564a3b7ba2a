package port

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
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
		k := codec.DecodeValue[K](in, c)
		d.Entry("%v: %+v", k, codec.DecodeValue[V](in, c))
	}
	for range out.dropped(in) {
		d.Entry("%v: dropped", codec.DecodeValue[K](in, c))
	}
}

// dropped reads how many keys were dropped. An entry that was found elsewhere comes alone,
// see [logdriven.FeedEntry], and has no such number.
func (out *EntryOutput[K, V]) dropped(in *codec.Decoder) int {
	if !out.drops || in.Err != nil || len(in.Data) == 0 {
		return 0
	}
	return in.Count()
}

// DescribeFed implements [engine.Output].
func (out *ValueOutput[T]) DescribeFed(in *codec.Decoder, c codec.Codec, d *codec.Describer) {
	if in.Byte() == 1 {
		d.Entry("%+v", codec.DecodeValue[T](in, c))
	} else {
		d.Entry("nothing")
	}
}

// What a step gives is, for each output that has something: how many elements there are, and
// the elements. Of a stream the number of
// its first element comes before, counted from the first one ever, so that readers
// can say how far they are.

// Emit appends the elements of the step, and keeps them until they were read.
func (out *Output[T]) Emit(dst []byte, c codec.Codec) (_ []byte, err error) {
	if len(out.step) == 0 {
		return dst, nil
	}
	dst = binary.AppendUvarint(dst, out.first+uint64(len(out.buf)))
	dst = binary.AppendUvarint(dst, uint64(len(out.step)))
	for _, x := range out.step {
		if dst, err = codec.AppendValue(dst, c, x); err != nil {
			return dst, fmt.Errorf("%s: %w", out.op, err)
		}
	}
	out.buf = append(out.buf, out.step...)
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
	}
}

// Acknowledge forgets what was read.
func (out *Output[T]) Acknowledge(r *codec.Record, _ codec.Codec) (bool, error) {
	if r.Kind != codec.KindRead {
		return false, fmt.Errorf("%w: it is of kind %d, for %s", codec.ErrRecord, r.Kind, out.op)
	}
	if r.Number <= out.first || r.Number > out.first+uint64(len(out.buf)) {
		return true, nil
	}
	n := copy(out.buf, out.buf[r.Number-out.first:])
	clear(out.buf[n:])
	out.buf, out.first = out.buf[:n], r.Number
	return true, nil
}

// Full implements [engine.Output].
func (out *Output[T]) Full() bool { return len(out.buf) > out.bound }

// Emit appends the entries of the step, and keeps them until they are taken.
func (out *EntryOutput[K, V]) Emit(dst []byte, c codec.Codec) (_ []byte, err error) {
	if len(out.step.K)+len(out.gone.K) == 0 {
		return dst, nil
	}
	dst = binary.AppendUvarint(dst, uint64(len(out.step.K)))
	for i, k := range out.step.K {
		if dst, err = codec.AppendValue(dst, c, k); err == nil {
			dst, err = codec.AppendValue(dst, c, out.step.V[i])
		}
		if err != nil {
			return dst, fmt.Errorf("%s, key %v: %w", out.op, k, err)
		}
	}
	if out.drops {
		dst = binary.AppendUvarint(dst, uint64(len(out.gone.K)))
		for _, k := range out.gone.K {
			if dst, err = codec.AppendValue(dst, c, k); err != nil {
				return dst, fmt.Errorf("%s, key %v: %w", out.op, k, err)
			}
		}
	}
	out.Release()
	return dst, nil
}

// Adopt implements [engine.Output].
func (out *EntryOutput[K, V]) Adopt(d *codec.Decoder, c codec.Codec) {
	out.Feed(d, c, 0)
	out.Release()
}

// Acknowledge forgets an entry that was taken.
func (out *EntryOutput[K, V]) Acknowledge(r *codec.Record, c codec.Codec) (bool, error) {
	var k K
	if r.Kind != codec.KindTaken {
		return false, fmt.Errorf("%w: it is of kind %d, for %s", codec.ErrRecord, r.Kind, out.op)
	}
	if err := c.Decode(r.Key, &k); err != nil {
		return false, fmt.Errorf("dataflow: decoding a key %T for %s: %w", k, out.op, err)
	}
	return out.entries.Delete(k, out.hash.Hash(k)), nil
}

// Emit appends the value at the end of the step.
func (out *ValueOutput[T]) Emit(dst []byte, c codec.Codec) (_ []byte, err error) {
	out.dirty = false
	if dst, err = appendCell(dst, c, out.node.Value, out.node.IsSet); err != nil {
		return dst, fmt.Errorf("%s: %w", out.op, err)
	}
	return dst, nil
}

// Adopt implements [engine.Output].
func (out *ValueOutput[T]) Adopt(d *codec.Decoder, c codec.Codec) {
	if d.Byte() == 1 {
		codec.DecodeValue[T](d, c)
	}
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
	dst = binary.AppendUvarint(dst, uint64(out.entries.Len()))
	for k, v := range out.entries.All() {
		if dst, err = codec.AppendValue(dst, c, k); err != nil {
			return dst, err
		}
		if dst, err = codec.AppendValue(dst, c, *v); err != nil {
			return dst, err
		}
	}
	if out.drops {
		dst = binary.AppendUvarint(dst, 0)
	}
	return dst, nil
}

// Kept implements [engine.Output].
func (out *ValueOutput[T]) Kept(dst []byte, c codec.Codec) ([]byte, error) { return out.Emit(dst, c) }

// Lookup implements [engine.Output].
func (out *EntryOutput[K, V]) Lookup(key []byte, c codec.Codec) ([]byte, bool, error) {
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

// Showing implements [engine.Output].
func (out *ValueOutput[T]) Showing() func(dst []byte, c codec.Codec) ([]byte, error) {
	out.mu.Lock()
	value, set, version := out.value, out.set, out.version
	out.mu.Unlock()
	if version == 0 {
		return nil
	}
	return func(dst []byte, c codec.Codec) ([]byte, error) {
		return appendCell(dst, c, value, set)
	}
}

func appendCell[T any](dst []byte, c codec.Codec, value T, set bool) ([]byte, error) {
	if !set {
		return append(dst, 0), nil
	}
	return codec.AppendValue(append(dst, 1), c, value)
}

// A mark says how far the elements of an output are those of one step.
type mark struct {
	source int
	number uint64 // that the element after them has at its source
	left   int    // of them, not read yet
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
	if out.fed == nil {
		out.fed = make(map[int]uint64)
	}
	// What is fed again after a change of owners, and was not read yet, is here already.
	if have := out.fed[source]; have > first {
		again := int(min(have-first, uint64(n)))
		out.step = slices.Delete(out.step, 0, again)
		first, n = first+uint64(again), n-again
	}
	out.fresh = mark{source, first + uint64(n), n}
}

// popped notes, with mu held, that an element was handed to a reader. The elements of
// a step count as read when the reader comes back after the last of them, since it
// has handled that then.
func (out *Output[T]) popped() {
	m := &out.marks[0]
	if m.left--; m.left == 0 {
		out.handled = append(out.handled, *m)
		out.marks = append(out.marks[:0], out.marks[1:]...)
	}
}

// tell says what was read.
func (out *Output[T]) tell() {
	out.mu.Lock()
	handled := out.handled
	out.handled = nil
	out.mu.Unlock()
	for _, m := range handled {
		out.remote.Read(out.loc.Number, out.op.Index, m.source, m.number)
	}
}

// Feed implements [engine.Output].
func (out *EntryOutput[K, V]) Feed(d *codec.Decoder, c codec.Codec, _ int) {
	for range d.Count() {
		k := codec.DecodeValue[K](d, c)
		v := codec.DecodeValue[V](d, c)
		if d.Err != nil {
			break
		}
		out.step.K = append(out.step.K, k)
		out.step.V = append(out.step.V, v)
		out.step.H = append(out.step.H, out.hash.Hash(k))
	}
	for range out.dropped(d) {
		k := codec.DecodeValue[K](d, c)
		if d.Err != nil {
			break
		}
		out.gone.K, out.gone.V, out.gone.H = append(out.gone.K, k), append(out.gone.V, struct{}{}), append(out.gone.H, out.hash.Hash(k))
	}
}

// Feed implements [engine.Output].
func (out *ValueOutput[T]) Feed(d *codec.Decoder, c codec.Codec, _ int) {
	var zero T
	out.node.Value, out.node.IsSet = zero, d.Byte() == 1
	if out.node.IsSet {
		out.node.Value = codec.DecodeValue[T](d, c)
	}
}

// awaitRemote is awaitNew of an entry that comes from elsewhere. It is called with mu held and
// returns with mu free.
func (out *EntryOutput[K, V]) awaitRemote(ctx context.Context, r engine.Remote, k K, h uint64, take bool) (v V, err error) {
	out.mu.Unlock()
	coming, done, err := out.wantRemote(ctx, r, k)
	if err != nil {
		return v, err
	}
	defer done()
	out.mu.Lock()
	v, err = out.awaitNew(coming, k, h, take)
	if err != nil && ctx.Err() == nil && coming.Err() != nil {
		err = context.Cause(coming) // the entry cannot come
	}
	return v, err
}

// wantRemote says that somebody waits for an entry.
func (out *EntryOutput[K, V]) wantRemote(ctx context.Context, r engine.Remote, k K) (_ context.Context, done func(), err error) {
	key, err := out.loc.Graph.Settings.Codec.Append(nil, k)
	if err != nil {
		return nil, nil, fmt.Errorf("dataflow: encoding a key %T for %s: %w", k, out.op, err)
	}
	if err := engine.Survives(out.loc.Graph.Settings.Codec, k, key); err != nil {
		return nil, nil, out.op.BadKey(k, err)
	}
	ctx, done = r.Want(ctx, out.loc.Number, out.op.Index, key)
	return ctx, done, nil
}

// takenRemote says that an entry was taken.
func (out *EntryOutput[K, V]) takenRemote(ctx context.Context, r engine.Remote, k K) error {
	key, err := out.loc.Graph.Settings.Codec.Append(nil, k)
	if err != nil {
		return err
	}
	return r.Taken(ctx, out.loc.Number, out.op.Index, key)
}

// Find implements [engine.Output].
func (out *EntryOutput[K, V]) Find(ctx context.Context, key []byte, c codec.Codec) ([]byte, error) {
	var k K
	if err := c.Decode(key, &k); err != nil {
		return nil, err
	}
	v, err := out.await(ctx, k, false, nil)
	if err != nil {
		return nil, err
	}
	return c.Append(nil, v)
}
