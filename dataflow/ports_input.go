package dataflow

import (
	"context"

	"github.com/millrace/millrace/internal/engine"
)

// An InputPort is where elements enter a [Stream], from one sender at a time: each send
// has to happen before the next one begins, whichever goroutines they are in. The order of
// the sends is the order of the stream.
//
// The compiler cannot see that. The race detector does: two sends that nothing orders are
// a data race in the port, and a test or a program that was built with -race reports them
// with both stacks, also where a flow is durable. It sees the processes one by one: of
// several processes that share a durable flow, one sends to the input.
//
// Close is not a send and may be called by any goroutine.
type InputPort[T any] inputPort[T]

// Send appends x to the stream. It blocks while the location's queue is full, until
// ctx ends. It returns [ErrClosed] after Close or Stop, and the flow's error if the
// flow failed. If ctx ends while Send waits it returns ctx's cause, in a [BlockedError] if
// the location is stopped by an output that nobody reads.
//
// If the location is idle, Send runs it: when Send returns, x and what follows from
// it have been handled. If the location is busy, Send only leaves x there, and nil says
// no more than that. If Send ran the location and a function panicked, the flow has
// ended, and Send returns its error.
//
// In memory an error means that x was not accepted. In a durable flow it may have been:
// who sends it again sends it at least once, see [InputPort.SendNumbered].
func (p *InputPort[T]) Send(ctx context.Context, x T) error {
	return made(p.in(), "dataflow.InputPort").SendInTurn(ctx, x)
}

// SendBatch appends all of xs in order and returns how many were accepted. It is
// cheaper than a Send for each. The slice is not kept, but is read until SendBatch
// returns. If SendBatch ran the location and a function panicked, elements of the step
// that failed do not count as accepted.
//
// In memory an idle location takes the batch in one step, or as much of it as its queue
// holds. A durable flow appends the elements of each partition of a [Cluster] together, and
// to all partitions at once. If it returns n and an error, the first n elements are durable,
// and some of those behind them may be: a repeat sends them again, unless it is numbered.
func (p *InputPort[T]) SendBatch(ctx context.Context, xs []T) (int, error) {
	in := made(p.in(), "dataflow.InputPort")
	if ctx == nil {
		engine.NilContext("dataflow.InputPort.SendBatch")
	}
	in.Turn()
	return in.SendBatch(ctx, xs)
}

// SendNumbered is Send for a sender that counts what it sends, so that an element that is
// sent again is taken once: x is taken only if n is greater than every number before, and
// else Send returns nil. Numbers may begin anywhere, such as with a position in a file, and
// may have gaps. A repeat has the same number and the same element.
//
// A durable flow remembers the number, so it holds for a sender that starts again after a
// crash, too. In memory the port does. The numbers are those of the input: two senders that
// count on their own lose elements, in several processes as well; see [SenderInput].
func (p *InputPort[T]) SendNumbered(ctx context.Context, n uint64, x T) error {
	in := made(p.in(), "dataflow.InputPort")
	if ctx == nil {
		engine.NilContext("dataflow.InputPort.SendNumbered")
	}
	in.Turn()
	return in.SendNumbered(ctx, n, x)
}

// SendBatchNumbered is SendBatch for a sender that counts what it sends: the elements of xs
// have the numbers from first on. It returns how many of them were accepted, now or before;
// see [InputPort.SendNumbered].
func (p *InputPort[T]) SendBatchNumbered(ctx context.Context, first uint64, xs []T) (int, error) {
	in := made(p.in(), "dataflow.InputPort")
	if ctx == nil {
		engine.NilContext("dataflow.InputPort.SendBatchNumbered")
	}
	in.Turn()
	return in.SendBatchNumbered(ctx, first, xs)
}

// Close ends the stream. What was accepted is still handled. Closing twice is fine, and any
// goroutine may do it: a send at the same moment is accepted or returns [ErrClosed], and its
// caller knows which.
func (p *InputPort[T]) Close() { made(p.in(), "dataflow.InputPort").Base().Close() }

// A SharedInputPort is where elements enter a [Stream] without order. It is safe for any
// number of goroutines, and of processes that share a durable flow.
type SharedInputPort[T any] sharedInputPort[T]

// Send adds x to the stream; see [InputPort.Send].
func (p *SharedInputPort[T]) Send(ctx context.Context, x T) error {
	in := made(p.in(), "dataflow.SharedInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.SharedInputPort.Send")
	}
	return in.Send(ctx, x)
}

// SendBatch adds all of xs to the stream; see [InputPort.SendBatch].
func (p *SharedInputPort[T]) SendBatch(ctx context.Context, xs []T) (int, error) {
	in := made(p.in(), "dataflow.SharedInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.SharedInputPort.SendBatch")
	}
	return in.SendBatch(ctx, xs)
}

// SendNumbered is Send for senders that count what they send, so that an element that is
// sent again is taken once; see [InputPort.SendNumbered]. Each sender has a name and numbers
// of its own, and sends one element after another. One number is remembered for each name,
// as long as the flow has a history.
func (p *SharedInputPort[T]) SendNumbered(ctx context.Context, sender string, n uint64, x T) error {
	in := made(p.in(), "dataflow.SharedInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.SharedInputPort.SendNumbered")
	}
	return in.SendBy(ctx, sender, n, x)
}

// Close ends the stream; see [InputPort.Close].
func (p *SharedInputPort[T]) Close() { made(p.in(), "dataflow.SharedInputPort").Base().Close() }

// A KeyedInputPort is where values enter a [KeyedStream], from one sender at a time for
// each key: the values of a key have the order of its sends. Sends of different keys may be
// made at the same time. See [InputPort], also for what the race detector finds; for each
// key it keeps a counter, in builds with -race only.
type KeyedInputPort[K comparable, V any] keyedInputPort[K, V]

// Send appends v to the values of k; see [InputPort.Send]. It returns a [KeyError] for a
// k that cannot be a key.
func (p *KeyedInputPort[K, V]) Send(ctx context.Context, k K, v V) error {
	in := made(p.in(), "dataflow.KeyedInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.KeyedInputPort.Send")
	}
	return in.SendInTurn(ctx, k, v)
}

// SendBatch appends the value vs[i] to those of the key ks[i], for each i in order, and
// returns how many entries were accepted; see [InputPort.SendBatch]. It panics if ks and vs
// have different lengths. If one of ks cannot be a key, it sends nothing and returns a
// [KeyError] with the index of the first one.
//
// The entries of a key keep their order, also where a location is divided into partitions.
func (p *KeyedInputPort[K, V]) SendBatch(ctx context.Context, ks []K, vs []V) (int, error) {
	in := made(p.in(), "dataflow.KeyedInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.KeyedInputPort.SendBatch")
	}
	engine.SameLength("dataflow.KeyedInputPort.SendBatch", len(ks), len(vs))
	in.TurnAll(ks)
	return in.SendBatch(ctx, ks, vs)
}

// SendNumbered is Send for senders that count what they send of a key, so that a value that
// is sent again is taken once; see [InputPort.SendNumbered]. The numbers are those of the
// key. The last one is remembered for each key that was ever sent with one.
func (p *KeyedInputPort[K, V]) SendNumbered(ctx context.Context, k K, n uint64, v V) error {
	in := made(p.in(), "dataflow.KeyedInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.KeyedInputPort.SendNumbered")
	}
	in.Turn(k)
	return in.SendNumbered(ctx, k, n, v)
}

// SendBatchNumbered is SendBatch for a sender that counts what it sends: the entries have the
// numbers from first on, as the lines of a file have. The number of an entry is compared with
// those of its key; see [KeyedInputPort.SendNumbered]. It returns how many of the entries
// were accepted, now or before.
func (p *KeyedInputPort[K, V]) SendBatchNumbered(ctx context.Context, first uint64, ks []K, vs []V) (int, error) {
	in := made(p.in(), "dataflow.KeyedInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.KeyedInputPort.SendBatchNumbered")
	}
	engine.SameLength("dataflow.KeyedInputPort.SendBatchNumbered", len(ks), len(vs))
	in.TurnAll(ks)
	return in.SendBatchNumbered(ctx, first, ks, vs)
}

// Close ends the stream; see [InputPort.Close].
func (p *KeyedInputPort[K, V]) Close() { made(p.in(), "dataflow.KeyedInputPort").Base().Close() }

// A SharedKeyedInputPort is where values enter a [KeyedStream] without order. It is safe
// for any number of goroutines, and of processes that share a durable flow.
type SharedKeyedInputPort[K comparable, V any] sharedKeyedInputPort[K, V]

// Send adds v to the values of k; see [KeyedInputPort.Send].
func (p *SharedKeyedInputPort[K, V]) Send(ctx context.Context, k K, v V) error {
	in := made(p.in(), "dataflow.SharedKeyedInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.SharedKeyedInputPort.Send")
	}
	return in.Send(ctx, k, v)
}

// SendBatch adds the value vs[i] to those of the key ks[i], for each i; see
// [KeyedInputPort.SendBatch].
func (p *SharedKeyedInputPort[K, V]) SendBatch(ctx context.Context, ks []K, vs []V) (int, error) {
	in := made(p.in(), "dataflow.SharedKeyedInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.SharedKeyedInputPort.SendBatch")
	}
	engine.SameLength("dataflow.SharedKeyedInputPort.SendBatch", len(ks), len(vs))
	return in.SendBatch(ctx, ks, vs)
}

// SendNumbered is Send for senders that count what they send, whichever keys it is for; see
// [SharedInputPort.SendNumbered].
func (p *SharedKeyedInputPort[K, V]) SendNumbered(ctx context.Context, sender string, n uint64, k K, v V) error {
	in := made(p.in(), "dataflow.SharedKeyedInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.SharedKeyedInputPort.SendNumbered")
	}
	return in.SendBy(ctx, sender, n, k, v)
}

// Close ends the stream; see [InputPort.Close].
func (p *SharedKeyedInputPort[K, V]) Close() {
	made(p.in(), "dataflow.SharedKeyedInputPort").Base().Close()
}
