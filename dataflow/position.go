package dataflow

import (
	"context"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/port"
)

// A Position is where something is in what a sender reads: an offset of a topic, a byte of a file, a change of a transaction.
// Positions grow, and may have gaps. Major decides, and Minor among those with the same Major, for what has a place within a
// larger unit; most have a Minor of zero. A Major of 1<<64 - 1 is none.
//
// A number of [SharedInputPort.SendNumbered] is the Position with that Major.
type Position struct{ Major, Minor uint64 }

// After reports whether p is behind q.
func (p Position) After(q Position) bool {
	return p.Major > q.Major || p.Major == q.Major && p.Minor > q.Minor
}

// numbering is for the inputs.
func numbering(at []Position) port.Numbering {
	return func(i int) (uint64, uint64) { return at[i].Major, at[i].Minor }
}

// SendBatchAt is SendBatch for a sender whose elements have positions, so that an element that is sent again is taken once:
// xs[i] is taken only if at[i] is behind every position before that was sent under the same name, as of
// [SharedInputPort.SendNumbered]. There is one sender at a time, and it may send under several names, as one does that reads a
// file, and then another one. It returns how many of the elements were accepted, now or before. Positions that do not grow within
// the batch are an error, and nothing is sent. It panics if at and xs have different lengths.
func (p *InputPort[T]) SendBatchAt(ctx context.Context, sender string, at []Position, xs []T) (int, error) {
	in := made(p.in(), "dataflow.InputPort")
	if ctx == nil {
		engine.NilContext("dataflow.InputPort.SendBatchAt")
	}
	engine.SamePositions("dataflow.InputPort.SendBatchAt", len(at), len(xs))
	in.Turn()
	return in.SendBatchBy(ctx, sender, numbering(at), xs)
}

// SendBatchAt is SendBatch for senders whose elements have positions, which are compared with those of the sender with that
// name; see [InputPort.SendBatchAt] and [SharedInputPort.SendNumbered].
func (p *SharedInputPort[T]) SendBatchAt(ctx context.Context, sender string, at []Position, xs []T) (int, error) {
	in := made(p.in(), "dataflow.SharedInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.SharedInputPort.SendBatchAt")
	}
	engine.SamePositions("dataflow.SharedInputPort.SendBatchAt", len(at), len(xs))
	return in.SendBatchBy(ctx, sender, numbering(at), xs)
}

// SendBatchAt is SendBatch for senders whose entries have positions, whichever keys they are of; see
// [SharedInputPort.SendBatchAt]. All values of a key come from one sender at a time, since they have the order of its sends.
//
// One position is remembered for each sender, and not one for each key as by [KeyedInputPort.SendNumbered].
func (p *KeyedInputPort[K, V]) SendBatchAt(ctx context.Context, sender string, at []Position, ks []K, vs []V) (int, error) {
	in := made(p.in(), "dataflow.KeyedInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.KeyedInputPort.SendBatchAt")
	}
	engine.SameLength("dataflow.KeyedInputPort.SendBatchAt", len(ks), len(vs))
	engine.SamePositions("dataflow.KeyedInputPort.SendBatchAt", len(at), len(vs))
	in.TurnAll(ks)
	return in.SendBatchBy(ctx, sender, numbering(at), ks, vs)
}

// SendBatchAt is SendBatch for senders whose entries have positions, whichever keys they are of; see
// [SharedInputPort.SendBatchAt].
//
// A durable flow remembers the last position of each sender in each partition. The entries that a partition has are those up to
// that position, without a gap, as long as a sender sends a batch again until it is accepted, and the next one after that.
func (p *SharedKeyedInputPort[K, V]) SendBatchAt(ctx context.Context, sender string, at []Position, ks []K, vs []V) (int, error) {
	in := made(p.in(), "dataflow.SharedKeyedInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.SharedKeyedInputPort.SendBatchAt")
	}
	engine.SameLength("dataflow.SharedKeyedInputPort.SendBatchAt", len(ks), len(vs))
	engine.SamePositions("dataflow.SharedKeyedInputPort.SendBatchAt", len(at), len(vs))
	return in.SendBatchBy(ctx, sender, numbering(at), ks, vs)
}

// SendBatchAt is SendBatch for a sender whose elements have positions; see [InputPort.SendBatchAt]. Each sender has positions
// of its own.
func (s *Sender[S, T]) SendBatchAt(ctx context.Context, at []Position, xs []T) (int, error) {
	in, err := s.begin(ctx, "dataflow.Sender.SendBatchAt")
	if err != nil {
		return 0, err
	}
	engine.SamePositions("dataflow.Sender.SendBatchAt", len(at), len(xs))
	return in.SendBatchAtOf(ctx, s.id, numbering(at), xs)
}
