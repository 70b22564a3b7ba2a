package dataflow

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/port"
)

// A SenderInputPort is a port with a handle for each of any number of senders. It is safe
// for concurrent use.
type SenderInputPort[S comparable, T any] struct {
	all *senders[S, T] // nil in a zero value
}

// senders are the handles of a port.
type senders[S comparable, T any] struct {
	in   port.EntrySender[S, T]
	mu   sync.Mutex
	open map[S]*Sender[S, T] // handles that are not closed
}

// Sender returns the handle of the sender id: the same one each time, until it is closed.
// Keep the handle, since looking it up takes a lock. An id that cannot be a key gets a
// handle whose sends return a [KeyError].
//
// A port keeps the handles that are not closed, in some 100 bytes plus the id each.
func (p *SenderInputPort[S, T]) Sender(id S) *Sender[S, T] {
	all := p.made()
	if !all.in.IsKey(id) {
		return &Sender[S, T]{of: all, id: id}
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.open[id]
	if s == nil {
		s = &Sender[S, T]{of: all, id: id}
		if all.open == nil {
			all.open = make(map[S]*Sender[S, T])
		}
		all.open[id] = s
	}
	return s
}

// Close ends the streams of all senders; see [InputPort.Close].
func (p *SenderInputPort[S, T]) Close() { p.made().in.Base().Close() }

func (p *SenderInputPort[S, T]) made() *senders[S, T] {
	if p == nil || p.all == nil {
		engine.Unmade("dataflow.SenderInputPort", "ports come from Input and Output functions")
	}
	return p.all
}

// A Sender is one sender's handle of a [SenderInputPort]. Its sends keep their order, so
// only one goroutine uses it at a time, as with an [InputPort], and the race detector
// reports two unordered sends. Different handles are independent.
type Sender[S comparable, T any] struct {
	of     *senders[S, T]
	id     S
	turns  uint64 // sends begun by the only sender; see [InputPort.Send]
	closed atomic.Bool
}

// ID returns the id that the handle was made for.
func (s *Sender[S, T]) ID() S {
	s.made()
	return s.id
}

// Send appends x to the sender's stream; see [InputPort.Send]. It returns [ErrClosed] after
// Close of the handle or of the port.
func (s *Sender[S, T]) Send(ctx context.Context, x T) error {
	in, err := s.begin(ctx, "dataflow.Sender.Send")
	if err != nil {
		return err
	}
	return in.Send(ctx, s.id, x)
}

// SendBatch appends all of xs in order and returns how many were accepted; see
// [InputPort.SendBatch].
func (s *Sender[S, T]) SendBatch(ctx context.Context, xs []T) (int, error) {
	in, err := s.begin(ctx, "dataflow.Sender.SendBatch")
	if err != nil {
		return 0, err
	}
	return in.SendBatchOf(ctx, s.id, xs)
}

// SendNumbered is Send for a sender that numbers its elements, so that an element sent
// again is taken once; see [InputPort.SendNumbered]. Each sender has its own numbers. A
// durable flow remembers one number for each id, also when its handle is closed. In memory,
// numbers are remembered for as long as the flow runs.
func (s *Sender[S, T]) SendNumbered(ctx context.Context, n uint64, x T) error {
	in, err := s.begin(ctx, "dataflow.Sender.SendNumbered")
	if err != nil {
		return err
	}
	return in.SendNumbered(ctx, s.id, n, x)
}

// SendBatchNumbered is SendBatch for a sender that numbers its elements; see
// [InputPort.SendBatchNumbered].
func (s *Sender[S, T]) SendBatchNumbered(ctx context.Context, first uint64, xs []T) (int, error) {
	in, err := s.begin(ctx, "dataflow.Sender.SendBatchNumbered")
	if err != nil {
		return 0, err
	}
	return in.SendBatchNumberedOf(ctx, s.id, first, xs)
}

// Close closes the handle and drops it from the port. From then on, Sender returns another
// handle for the same id, and its sends continue the stream. Close does not end the stream,
// which ends only when the port is closed. Any goroutine may call it, more than once.
func (s *Sender[S, T]) Close() {
	all := s.made()
	if s.closed.Swap(true) || !all.in.IsKey(s.id) {
		return
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.open, s.id)
}

// begin counts a send and returns the port's input. It returns ErrClosed if the handle is
// closed.
func (s *Sender[S, T]) begin(ctx context.Context, op string) (port.EntrySender[S, T], error) {
	all := s.made()
	if ctx == nil {
		engine.NilContext(op)
	}
	s.turns++
	if s.closed.Load() {
		return nil, ErrClosed
	}
	return all.in, nil
}

func (s *Sender[S, T]) made() *senders[S, T] {
	if s == nil || s.of == nil {
		engine.Unmade("dataflow.Sender", "handles come from SenderInputPort.Sender")
	}
	return s.of
}
