package dataflow

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/port"
)

// Input returns a port with one sender at a time, and the stream of what is sent to it,
// in that order. The name appears in errors, traces and graphs.
//
// One sender is one goroutine, or several whose sends happen one after another because a
// lock, a channel or a WaitGroup has it so; see [InputPort]. For any number of senders there
// are [SharedInput] and [SenderInput], and [RetriedInput] if they may send something again.
func Input[T any, L Location](at L, name string) (*InputPort[T], Stream[T, L, bounds.Unbounded, TotalOrder, ExactlyOnce]) {
	site := placeOf(at, "dataflow.Input").Input("dataflow.Input")
	in, n := port.NewInput[T](site, engine.NewOp(site, "dataflow.Input "+name, ""))
	return newInputPort(in), newStream[T, L, bounds.Unbounded, TotalOrder, ExactlyOnce](n)
}

// SharedInput returns a port for any number of senders, and the stream of what they send.
// It has no order, since which of two senders comes first is a matter of timing; a program
// for which arrival decides says so with [AssumeOrder].
//
// Senders that have an order of their own keep it with [SenderInput].
func SharedInput[T any, L Location](at L, name string) (*SharedInputPort[T], Stream[T, L, bounds.Unbounded, NoOrder, ExactlyOnce]) {
	site := placeOf(at, "dataflow.SharedInput").Input("dataflow.SharedInput")
	in, n := port.NewInput[T](site, engine.NewOp(site, "dataflow.SharedInput "+name, ""))
	in.Shared(false)
	return newSharedInputPort(in), newStream[T, L, bounds.Unbounded, NoOrder, ExactlyOnce](n)
}

// RetriedInput returns a port for any number of senders that may send an element more than
// once, as one does that has had no answer, and the stream of what they send. It has no
// order, and operators that would count a repeat do not accept it: [Unique] takes repeats
// out, and [AssumeOnce] says why they do no harm.
//
// Where repeats can be seen, the simulator tries them: it takes some elements again.
func RetriedInput[T any, L Location](at L, name string) (*SharedInputPort[T], Stream[T, L, bounds.Unbounded, NoOrder, AtLeastOnce]) {
	site := placeOf(at, "dataflow.RetriedInput").Input("dataflow.RetriedInput")
	in, n := port.NewInput[T](site, engine.NewOp(site, "dataflow.RetriedInput "+name, ""))
	in.Shared(true)
	return newSharedInputPort(in), newStream[T, L, bounds.Unbounded, NoOrder, AtLeastOnce](n)
}

// SenderInput returns a port with a handle for each sender, and the stream of what each of
// them sends, in its order, under its id. Any number of senders send at the same time, each
// through [SenderInputPort.Sender]. The ids are the senders' names for as long as the flow
// has a history: a connection, a device, a process.
func SenderInput[S comparable, T any, L Location](at L, name string) (*SenderInputPort[S, T], KeyedStream[S, T, L, bounds.Unbounded, TotalOrder, ExactlyOnce]) {
	site := placeOf(at, "dataflow.SenderInput").Input("dataflow.SenderInput")
	in, n := port.NewKeyedInput[S, T](site, engine.NewOp(site, "dataflow.SenderInput "+name, ""))
	return &SenderInputPort[S, T]{&senders[S, T]{in: in}}, newKeyedStream[S, T, L, bounds.Unbounded, TotalOrder, ExactlyOnce](n)
}

// mayRepeat reports whether R allows repeats.
func mayRepeat[R Retries]() bool {
	_, ok := any(*new(R)).(AtLeastOnce)
	return ok
}
