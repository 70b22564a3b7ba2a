package dataflow

import (
	"context"
	"iter"

	"github.com/millrace/millrace/internal/engine"
)

// seqBatch is how many elements SendSeq gathers. With twice as many, a send costs hardly
// less for each element, and each element waits for more others.
const seqBatch = 64

// SendSeq appends the elements of seq in order and returns how many were accepted. It
// gathers up to 64 elements and sends them as [InputPort.SendBatch] does, so an element
// costs a fraction of a Send. The location is free for other senders while SendSeq gathers.
// When seq ends, the remaining elements are sent as well.
//
// It stops at the first error of a SendBatch and returns it. By then it may have read up to
// 64 elements from seq that were not accepted. If seq pauses, gathered elements wait for
// the following ones; use Send for a source whose elements must not wait. If seq panics,
// the elements gathered last are not sent. SendSeq notices the end of ctx when it waits for
// room, and does not interrupt seq.
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
		clear(batch) // so that the batch keeps nothing alive while seq goes on
		batch = batch[:0]
	}
	in.Turn()
	accepted, err := in.SendBatch(ctx, batch)
	return n + accepted, err
}

// SendSeq appends the entries of seq in order and returns how many were accepted, as
// [InputPort.SendSeq] does with elements. It stops at a value that cannot be a key, and
// accepts none of the entries that are sent together with it. The Index of the [KeyError]
// is that of the entry in seq.
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
