package dataflow

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/port"
)

// Input returns a port with one sender at a time, and the stream of the elements sent to
// it, in the order of the sends. The name appears in errors, traces and graphs.
//
// One sender is one goroutine, or several whose sends are ordered by a lock, a channel or a
// WaitGroup; see [InputPort]. For any number of senders use [SharedInput] or [SenderInput],
// and [RetriedInput] if they may send an element again.
func Input[T any, L Location](at L, name string) (*InputPort[T], Stream[T, L, bounds.Unbounded, TotalOrder, ExactlyOnce]) {
	location := placeOf(at, "dataflow.Input").Input("dataflow.Input")
	in, n := port.NewInput[T](location, engine.NewOp(location, "dataflow.Input "+name, ""))
	return newInputPort(in), newStream[T, L, bounds.Unbounded, TotalOrder, ExactlyOnce](n)
}

// SharedInput returns a port for any number of senders, and the stream of the elements they
// send. The stream has no order, since the order of two senders is a matter of timing. A
// program in which arrival decides says so with [AssumeOrder].
//
// To keep the order of each sender, use [SenderInput].
func SharedInput[T any, L Location](at L, name string) (*SharedInputPort[T], Stream[T, L, bounds.Unbounded, NoOrder, ExactlyOnce]) {
	location := placeOf(at, "dataflow.SharedInput").Input("dataflow.SharedInput")
	in, n := port.NewInput[T](location, engine.NewOp(location, "dataflow.SharedInput "+name, ""))
	in.Shared(false)
	return newSharedInputPort(in), newStream[T, L, bounds.Unbounded, NoOrder, ExactlyOnce](n)
}

// RetriedInput returns a port for any number of senders that may send an element more than
// once, and the stream of the elements they send. A sender that got no answer may send
// again. The stream has no order, and operators that would count a repeat do not accept it:
// [Unique] removes repeats, and [AssumeOnce] states why they do no harm.
//
// Where repeats can be seen, the simulator tries them: it delivers some elements again.
func RetriedInput[T any, L Location](at L, name string) (*SharedInputPort[T], Stream[T, L, bounds.Unbounded, NoOrder, AtLeastOnce]) {
	location := placeOf(at, "dataflow.RetriedInput").Input("dataflow.RetriedInput")
	in, n := port.NewInput[T](location, engine.NewOp(location, "dataflow.RetriedInput "+name, ""))
	in.Shared(true)
	return newSharedInputPort(in), newStream[T, L, bounds.Unbounded, NoOrder, AtLeastOnce](n)
}

// SenderInput returns a port with a handle for each sender, and the stream of each sender's
// elements, in its order and under its id. Any number of senders may send at the same time,
// each through [SenderInputPort.Sender]. An id names a sender for as long as the flow has a
// history: a connection, a device, a process.
func SenderInput[S comparable, T any, L Location](at L, name string) (*SenderInputPort[S, T], KeyedStream[S, T, L, bounds.Unbounded, TotalOrder, ExactlyOnce]) {
	location := placeOf(at, "dataflow.SenderInput").Input("dataflow.SenderInput")
	in, n := port.NewKeyedInput[S, T](location, engine.NewOp(location, "dataflow.SenderInput "+name, ""))
	return &SenderInputPort[S, T]{&senders[S, T]{in: in}}, newKeyedStream[S, T, L, bounds.Unbounded, TotalOrder, ExactlyOnce](n)
}

// mayRepeat reports whether R allows repeats.
func mayRepeat[R Retries]() bool {
	_, ok := any(*new(R)).(AtLeastOnce)
	return ok
}
