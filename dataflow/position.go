package dataflow

import (
	"context"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/port"
)

// A Position is the place of an element in a sender's source: an offset in a topic, a byte in a file,
// or a change in a transaction. Positions grow, and may have gaps. Major is compared first. Minor
// orders elements with the same Major, within a larger unit; it is usually zero. A Major of 1<<64 - 1
// is not valid.
//
// A number of [SharedInputPort.SendNumbered] is the Position with that Major.
type Position struct{ Major, Minor uint64 }

// After reports whether p comes after q.
func (p Position) After(q Position) bool {
	return p.Major > q.Major || p.Major == q.Major && p.Minor > q.Minor
}

// numbering returns at in the form that inputs take.
func numbering(at []Position) port.Numbering {
	return func(i int) (uint64, uint64) { return at[i].Major, at[i].Minor }
}

// SendBatchAt is SendBatch for a sender whose elements have positions, so that an element sent again is
// taken once. It takes xs[i] only if at[i] is after every earlier position sent under the same name;
// see [SharedInputPort.SendNumbered]. There is one sender at a time. It may use several names, for
// example when it reads one file after another. It returns how many of the elements were accepted, now
// or before. If the positions do not grow within the batch, it sends nothing and returns an error. It
// panics if at and xs have different lengths.
func (p *InputPort[T]) SendBatchAt(ctx context.Context, sender string, at []Position, xs []T) (int, error) {
	in := made(p.in(), "dataflow.InputPort")
	if ctx == nil {
		engine.NilContext("dataflow.InputPort.SendBatchAt")
	}
	engine.SamePositions("dataflow.InputPort.SendBatchAt", len(at), len(xs))
	in.Turn()
	return in.SendBatchBy(ctx, sender, numbering(at), xs)
}

// SendBatchAt is SendBatch for senders whose elements have positions. A position is compared with the
// earlier ones of the sender with that name; see [InputPort.SendBatchAt] and
// [SharedInputPort.SendNumbered].
func (p *SharedInputPort[T]) SendBatchAt(ctx context.Context, sender string, at []Position, xs []T) (int, error) {
	in := made(p.in(), "dataflow.SharedInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.SharedInputPort.SendBatchAt")
	}
	engine.SamePositions("dataflow.SharedInputPort.SendBatchAt", len(at), len(xs))
	return in.SendBatchBy(ctx, sender, numbering(at), xs)
}

// SendBatchAt is SendBatch for senders whose entries have positions across all keys; see
// [SharedInputPort.SendBatchAt]. All values of a key come from one sender at a time, since they have
// the order of its sends.
//
// The flow remembers one position for each sender, and not one for each key as
// [KeyedInputPort.SendNumbered] does.
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

// SendBatchAt is SendBatch for senders whose entries have positions across all keys; see
// [SharedInputPort.SendBatchAt].
//
// A durable flow remembers the last position of each sender in each partition. A partition has the
// sender's entries up to that position, without a gap, provided the sender repeats a batch until it is
// accepted before it sends the next.
func (p *SharedKeyedInputPort[K, V]) SendBatchAt(ctx context.Context, sender string, at []Position, ks []K, vs []V) (int, error) {
	in := made(p.in(), "dataflow.SharedKeyedInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.SharedKeyedInputPort.SendBatchAt")
	}
	engine.SameLength("dataflow.SharedKeyedInputPort.SendBatchAt", len(ks), len(vs))
	engine.SamePositions("dataflow.SharedKeyedInputPort.SendBatchAt", len(at), len(vs))
	return in.SendBatchBy(ctx, sender, numbering(at), ks, vs)
}

// SendBatchAt is SendBatch for a sender whose elements have positions; see [InputPort.SendBatchAt].
// Each sender has its own positions.
func (s *Sender[S, T]) SendBatchAt(ctx context.Context, at []Position, xs []T) (int, error) {
	in, err := s.begin(ctx, "dataflow.Sender.SendBatchAt")
	if err != nil {
		return 0, err
	}
	engine.SamePositions("dataflow.Sender.SendBatchAt", len(at), len(xs))
	return in.SendBatchAtOf(ctx, s.id, numbering(at), xs)
}
