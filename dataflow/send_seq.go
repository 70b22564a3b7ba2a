package dataflow

import (
	"context"
	"iter"

	"github.com/millrace/millrace/internal/engine"
)

// seqBatch is how many elements SendSeq gathers: with twice as many a send costs an element
// hardly less, and each element waits for more others.
const seqBatch = 64

// SendSeq appends the elements of seq in order and returns how many were accepted. It
// gathers up to 64 elements at a time and sends them as [InputPort.SendBatch] does, so that
// an element costs a fraction of a Send, while the location is free for others until 64 are
// there. What is left when seq ends is sent as well.
//
// It stops at the first error of a SendBatch and returns it; seq may have been asked for up
// to 63 elements more than were accepted. Elements of a seq that pauses wait for those that
// follow, so use Send for a source in which an element must not wait. If seq panics, what
// was gathered last is not sent. A ctx that ends is noticed when SendSeq waits for room, and
// does not interrupt seq.
func (p *InputPort[T]) SendSeq(ctx context.Context, seq iter.Seq[T]) (n int, err error) {
	in := made(p.in(), "dataflow.InputPort")
	if ctx == nil {
		engine.NilContext("dataflow.InputPort.SendSeq")
	}
	engine.Given("dataflow.InputPort.SendSeq", seq)
	batch := make([]T, 0, seqBatch)
	for x := range seq {
		if batch = append(batch, x); len(batch) < seqBatch {
			continue
		}
		in.Turn()
		accepted, err := in.SendBatch(ctx, batch)
		n += accepted
		if err != nil {
			return n, err
		}
		clear(batch) // so that it keeps nothing alive while seq goes on
		batch = batch[:0]
	}
	in.Turn()
	accepted, err := in.SendBatch(ctx, batch)
	return n + accepted, err
}

// SendSeq appends the entries of seq in order and returns how many were accepted, as
// [InputPort.SendSeq] does with elements. It stops at a key that cannot be one, and accepts
// none of the entries that are sent together with it. The Index of the [KeyError] is that of
// the entry in seq.
func (p *KeyedInputPort[K, V]) SendSeq(ctx context.Context, seq iter.Seq2[K, V]) (n int, err error) {
	in := made(p.in(), "dataflow.KeyedInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.KeyedInputPort.SendSeq")
	}
	engine.Given("dataflow.KeyedInputPort.SendSeq", seq)
	ks, vs := make([]K, 0, seqBatch), make([]V, 0, seqBatch)
	send := func() error {
		in.TurnAll(ks)
		accepted, err := in.SendBatch(ctx, ks, vs)
		if bad, ok := err.(*KeyError); ok {
			bad.Index += n
		}
		n += accepted
		clear(ks)
		clear(vs)
		ks, vs = ks[:0], vs[:0]
		return err
	}
	for k, v := range seq {
		if ks, vs = append(ks, k), append(vs, v); len(ks) == seqBatch {
			if err := send(); err != nil {
				return n, err
			}
		}
	}
	err = send()
	return n, err
}
