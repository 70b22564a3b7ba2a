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
	var batch [seqBatch]T
	var g gathering
	send := func() bool {
		in.Turn()
		xs := batch[:g.take("dataflow.InputPort.SendSeq")]
		accepted, sent := in.SendBatch(ctx, xs)
		n, err = n+accepted, sent
		clear(xs) // so that the batch keeps nothing alive while seq goes on
		return g.goesOn(err)
	}
	seq(func(x T) bool {
		batch[g.next()] = x
		return !g.full() || send()
	})
	if err == nil {
		send()
	}
	g.end()
	return n, err
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
	var ks [seqBatch]K
	var vs [seqBatch]V
	var g gathering
	send := func() bool {
		m := g.take("dataflow.KeyedInputPort.SendSeq")
		in.TurnAll(ks[:m])
		accepted, sent := in.SendBatch(ctx, ks[:m], vs[:m])
		if bad, ok := sent.(*KeyError); ok {
			bad.Index += n
		}
		n, err = n+accepted, sent
		clear(ks[:m])
		clear(vs[:m])
		return g.goesOn(err)
	}
	seq(func(k K, v V) bool {
		i := g.next()
		ks[i], vs[i] = k, v
		return !g.full() || send()
	})
	if err == nil {
		send()
	}
	g.end()
	return n, err
}

// A gathering counts the elements of a sequence that SendSeq has gathered. A loop over the sequence with range would check for each
// element that the sequence has not ended, which takes as long as to gather it; here the check is made when the batch is full, and
// after the end each element finds a full one.
type gathering struct {
	n    int
	over bool
}

// next returns the place of the next element.
func (g *gathering) next() int {
	i := g.n
	g.n++
	return i & (seqBatch - 1)
}

func (g *gathering) full() bool { return g.n >= seqBatch }

// take returns how many elements were gathered, and begins again. Like a loop with range it panics if the sequence goes on after
// its end.
func (g *gathering) take(name string) int {
	if g.over {
		engine.Misuse(name, "the sequence gave another element after it had been told to stop, or after it had returned")
	}
	n := g.n
	g.n = 0
	return n
}

// goesOn reports whether there was no error, and ends the gathering if there was one.
func (g *gathering) goesOn(err error) bool {
	if err != nil {
		g.end()
	}
	return err == nil
}

func (g *gathering) end() { g.n, g.over = seqBatch, true }
