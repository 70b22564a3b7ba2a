package keyedsingleton

import (
	"context"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/port"
)

// An Asker sends requests and returns their responses. It is safe for concurrent use. [Ask]
// makes one.
type Asker[K comparable, V, U any] struct {
	ask func(ctx context.Context, k K, v V) (U, error) // nil in a zero value
}

// Ask returns an Asker that puts requests to in and takes their responses from out. Both
// ports stay as usable as before. They must belong to one flow, which need not have been
// started; Ask panics if they do not.
func Ask[K comparable, V, U any](in *dataflow.EntryInputPort[K, V], out *dataflow.EntryOutputPort[K, U]) *Asker[K, V, U] {
	requests, responses := inputOf(in), outputOf(out)
	if requests == nil || responses == nil {
		engine.Unmade("keyedsingleton.Ask", "ports come from Input and Output functions")
	}
	port.OneFlow("keyedsingleton.Ask", requests, responses)
	return &Asker[K, V, U]{func(ctx context.Context, k K, v V) (U, error) {
		return port.Ask(ctx, requests, responses, k, v)
	}}
}

// Ask puts the entry (k, v) and takes the entry of k from the output as soon as there is
// one: it is [dataflow.EntryInputPort.Put] and [dataflow.EntryOutputPort.Take] in one call.
//
// It costs less than the two calls if the location is idle and the response follows in the
// same step, which Ask then runs: the response goes to the caller directly and is not kept
// by the output in between. If the location is busy or the response comes later, Ask waits
// for it. It starts to wait before the request can be handled, so a Take of the same key
// that begins later does not overtake it. Every Await that waits for k when the response
// comes receives it as well. In a durable flow and in a simulation, Ask is Put and then
// Take.
//
// It returns the errors of the two: [dataflow.ErrDuplicateKey] if k was put before, a
// [dataflow.KeyError] for a k that cannot be a key, [dataflow.ErrClosed] after Close or
// Stop, the flow's error if it failed, and io.EOF if it ended without a response. If ctx
// ends while Ask waits, Ask returns ctx's cause. The request has been accepted by then, and
// its response can be taken from the output.
//
// A function of the flow must not call Ask of its own location: the response cannot come
// before that function returns.
func (a *Asker[K, V, U]) Ask(ctx context.Context, k K, v V) (U, error) {
	if a == nil || a.ask == nil {
		engine.Unmade("keyedsingleton.Asker", "the function keyedsingleton.Ask makes it")
	}
	if ctx == nil {
		engine.NilContext("keyedsingleton.Asker.Ask")
	}
	return a.ask(ctx, k, v)
}
