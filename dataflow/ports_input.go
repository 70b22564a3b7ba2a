package dataflow

import (
	"context"

	"github.com/millrace/millrace/internal/engine"
)

// An InputPort is a port for sending elements to a [Stream], from one sender at a time: each
// send must happen before the next one begins, in whichever goroutines. The order of the sends
// is the order of the stream.
//
// The compiler cannot check that, but the race detector does: two unordered sends are a data
// race in the port, which a test or a program built with -race reports with both stacks, also
// in a durable flow. It checks each process separately. Of several processes that share a
// durable flow, only one may send to the input.
//
// Close is not a send and may be called by any goroutine.
type InputPort[T any] inputPort[T]

// Send appends x to the stream. It blocks while the location's queue is full, until ctx ends.
// It returns [ErrClosed] after Close or Stop, and the flow's error if the flow failed. If ctx
// ends while Send waits it returns ctx's cause, in a [BlockedError] if the location is stopped
// by an unread output.
//
// If the location is idle, Send runs it: when Send returns, x and its consequences have been
// handled. If the location is busy, Send only queues x, and a nil error says no more than that.
// If Send ran the location and a function panicked, the flow has ended, and Send returns its
// error.
//
// In memory an error means that x was not accepted. In a durable flow x may have been accepted,
// so sending it again may repeat it; see [InputPort.SendNumbered].
func (p *InputPort[T]) Send(ctx context.Context, x T) error {
	return made(p.in(), "dataflow.InputPort").SendInTurn(ctx, x)
}

// SendBatch appends all of xs in order and returns how many were accepted. It is cheaper than a
// Send for each. It does not keep the slice, but reads it until it returns. If SendBatch ran
// the location and a function panicked, elements of the failed step do not count as accepted.
//
// In memory an idle location takes the batch in one step, or as much of it as its queue holds.
// A durable flow appends the elements of each partition of a [Cluster] together, and to all
// partitions at once. If it returns n and an error, the first n elements are durable, and some
// later ones may be. Sending those again may repeat them, unless they are numbered.
func (p *InputPort[T]) SendBatch(ctx context.Context, xs []T) (int, error) {
	in := made(p.in(), "dataflow.InputPort")
	if ctx == nil {
		engine.NilContext("dataflow.InputPort.SendBatch")
	}
	in.Turn()
	return in.SendBatch(ctx, xs)
}

// SendNumbered is Send for a sender that numbers its elements, so that an element sent again is
// taken once. It takes x only if n is greater than every earlier number, and otherwise returns
// nil. Numbers may begin anywhere, such as with a position in a file, and may have gaps. A
// repeat must have the same number and the same element.
//
// A durable flow remembers the number, so this also holds for a sender that restarts after a
// crash. In memory the port remembers it. The numbers are those of the input: two senders that
// number independently lose elements, in several processes as well; see [SenderInput].
func (p *InputPort[T]) SendNumbered(ctx context.Context, n uint64, x T) error {
	in := made(p.in(), "dataflow.InputPort")
	if ctx == nil {
		engine.NilContext("dataflow.InputPort.SendNumbered")
	}
	in.Turn()
	return in.SendNumbered(ctx, n, x)
}

// SendBatchNumbered is SendBatch for a sender that numbers its elements: those of xs have
// consecutive numbers beginning with first. It returns how many of them were accepted, now or
// before; see [InputPort.SendNumbered].
func (p *InputPort[T]) SendBatchNumbered(ctx context.Context, first uint64, xs []T) (int, error) {
	in := made(p.in(), "dataflow.InputPort")
	if ctx == nil {
		engine.NilContext("dataflow.InputPort.SendBatchNumbered")
	}
	in.Turn()
	return in.SendBatchNumbered(ctx, first, xs)
}

// Close ends the stream. Accepted elements are still handled. Any goroutine may call Close,
// more than once. A concurrent send is either accepted or returns [ErrClosed].
func (p *InputPort[T]) Close() { made(p.in(), "dataflow.InputPort").Base().Close() }

// A SharedInputPort is a port for sending elements to a [Stream] without order. It is safe for
// concurrent use, also by several processes that share a durable flow.
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

// SendNumbered is Send for senders that number their elements, so that an element sent again is
// taken once; see [InputPort.SendNumbered]. Each sender has its own name and numbers, and sends
// one element after another. The flow remembers one number for each name, for as long as it has
// a history.
func (p *SharedInputPort[T]) SendNumbered(ctx context.Context, sender string, n uint64, x T) error {
	in := made(p.in(), "dataflow.SharedInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.SharedInputPort.SendNumbered")
	}
	return in.SendBy(ctx, sender, n, x)
}

// Close ends the stream; see [InputPort.Close].
func (p *SharedInputPort[T]) Close() { made(p.in(), "dataflow.SharedInputPort").Base().Close() }

// A KeyedInputPort is a port for sending values to a [KeyedStream], from one sender at a time
// for each key. The values of a key have the order of its sends. Sends of different keys may be
// concurrent. See [InputPort], also for the race detector's checks. In builds with -race only,
// the port keeps a counter for each key.
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

// SendBatch appends the value vs[i] to those of the key ks[i], for each i in order, and returns
// how many entries were accepted; see [InputPort.SendBatch]. It panics if ks and vs have
// different lengths. If one of ks cannot be a key, it sends nothing and returns a [KeyError]
// with the index of the first one.
//
// The entries of a key keep their order, also if the location is divided into partitions.
func (p *KeyedInputPort[K, V]) SendBatch(ctx context.Context, ks []K, vs []V) (int, error) {
	in := made(p.in(), "dataflow.KeyedInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.KeyedInputPort.SendBatch")
	}
	engine.SameLength("dataflow.KeyedInputPort.SendBatch", len(ks), len(vs))
	in.TurnAll(ks)
	return in.SendBatch(ctx, ks, vs)
}

// SendNumbered is Send for senders that number the values of a key, so that a value sent again
// is taken once; see [InputPort.SendNumbered]. The numbers are those of the key. The flow
// remembers the last number of each key that was ever sent with one.
func (p *KeyedInputPort[K, V]) SendNumbered(ctx context.Context, k K, n uint64, v V) error {
	in := made(p.in(), "dataflow.KeyedInputPort")
	if ctx == nil {
		engine.NilContext("dataflow.KeyedInputPort.SendNumbered")
	}
	in.Turn(k)
	return in.SendNumbered(ctx, k, n, v)
}

// SendBatchNumbered is SendBatch for a sender that numbers its entries: they have consecutive
// numbers beginning with first, like the lines of a file. The number of an entry is compared
// with those of its key; see [KeyedInputPort.SendNumbered]. It returns how many of the entries
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

// A SharedKeyedInputPort is a port for sending values to a [KeyedStream] without order. It is
// safe for concurrent use, also by several processes that share a durable flow.
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

// SendNumbered is Send for senders that number their values across all keys; see
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
