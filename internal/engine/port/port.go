// Package port implements the ends of a flow, the inputs and outputs that a program writes and reads, and what happens inside the
// flow when a step is published: exchanges between locations, cycles and asynchronous calls.
//
// An input accepts records for a later step and implements [engine.Input]: [Input] for elements, [KeyedInput] for entries. An
// output receives what a step produced and implements [engine.Output]: [Output] for elements, [EntryOutput] for entries,
// [ValueOutput] for a value that changes. The files *_log.go hold what the larger ones need when the history is kept outside the
// process. Start reading at Input.
package port

import (
	"context"
	"slices"

	"github.com/millrace/millrace/internal/engine"
)

var (
	_ engine.Input = (*Input[int])(nil)
	_ engine.Input = (*KeyedInput[int, int])(nil)
	_ engine.Input = (*answers[int, int, int])(nil)

	_ engine.Port     = (*Output[int])(nil)
	_ engine.Port     = (*EntryOutput[int, int])(nil)
	_ engine.Port     = (*ValueOutput[int])(nil)
	_ engine.Unsent   = (*exchange[int])(nil)
	_ engine.Unsent   = (*keyedExchange[int, int])(nil)
	_ engine.Delivery = (*Cycle[int])(nil)
	_ engine.Calling  = (*async[int, int, int])(nil)
)

// A port of a program holds its input or output behind one of the interfaces below, so that a package with ports in its types
// need not mention inputs and outputs; compare the interfaces of collections in package engine.

// A Sender is what a port of a plain stream holds: an [Input].
type Sender[T any] interface {
	Base() *engine.InputBase
	Turn()
	SendInTurn(ctx context.Context, x T) error
	Send(ctx context.Context, x T) error
	SendBatch(ctx context.Context, xs []T) (int, error)
	SendNumbered(ctx context.Context, n uint64, x T) error
	SendBatchNumbered(ctx context.Context, first uint64, xs []T) (int, error)
	SendBy(ctx context.Context, sender string, n uint64, x T) error
	SendBatchBy(ctx context.Context, sender string, at Numbering, xs []T) (int, error)
}

// An EntrySender is what a port of entries holds: a [KeyedInput].
type EntrySender[K comparable, V any] interface {
	Base() *engine.InputBase
	IsKey(k K) bool
	Turn(k K)
	TurnAll(ks []K)
	SendInTurn(ctx context.Context, k K, v V) error
	Send(ctx context.Context, k K, v V) error
	SendBatch(ctx context.Context, ks []K, vs []V) (int, error)
	SendBatchOf(ctx context.Context, k K, vs []V) (int, error)
	SendNumbered(ctx context.Context, k K, n uint64, v V) error
	SendBatchNumbered(ctx context.Context, first uint64, ks []K, vs []V) (int, error)
	SendBatchNumberedOf(ctx context.Context, k K, first uint64, vs []V) (int, error)
	SendBatchAtOf(ctx context.Context, k K, at Numbering, vs []V) (int, error)
	SendBy(ctx context.Context, sender string, n uint64, k K, v V) error
	SendBatchBy(ctx context.Context, sender string, at Numbering, ks []K, vs []V) (int, error)
	PutBatch(ctx context.Context, ks []K, vs []V) ([]error, error)
	Has(ctx context.Context, k K) (bool, error)
}

// A Receiver is what an output port of elements holds: an [Output].
type Receiver[T any] interface {
	Operator() *engine.Op
	Next(ctx context.Context) (T, error)
	Receive(ctx context.Context) (x T, ack func(), err error)
	ReceiveRun(ctx context.Context, most int) (Run[T], error)
	GivenBy(ctx context.Context, partition int) (n uint64, owned bool, err error)
}

// An EntryReceiver is what an output port of entries holds: an [EntryOutput].
type EntryReceiver[K comparable, V any] interface {
	Operator() *engine.Op
	Await(ctx context.Context, k K, take bool) (V, error)
	TakeNext(ctx context.Context) (K, V, error)
	Get(k K) (V, bool)
	Len() int
}

// A ValueReceiver is what an output port of a value holds: a [ValueOutput].
type ValueReceiver[T any] interface {
	Operator() *engine.Op
	Latest() (T, bool)
	Next(ctx context.Context, seen uint64) (v T, ok bool, version uint64, err error)
}

// The compiler inlines a function of another package only if it has the function's body, and export data contains the body of a
// function only if the package declares it or has inlined it. Inputs and outputs are generic, so their code is compiled in the
// package of the program, which sees neither this package nor internal/keyed. Package dataflow therefore instantiates one of each
// type that a record passes through; see its inline.go. Without that, each operation on a run token and each atomic load would be
// a function call there.

// sendTurn waits until it is the turn of a caller that sends to an input.
func sendTurn(in *engine.InputBase) error {
	if err := in.Loc.Turn(engine.Turn{Action: "send to", Op: in.Op}); err != nil {
		return err
	}
	in.Sends()
	return nil
}

// used records a send in a simulated graph.
func (in *KeyedInput[K, V]) used(do string, k K, v V, err error) {
	if in.Loc.Simulated() {
		in.Loc.Used(engine.Use{Op: in.Op, Do: do, Key: k, Value: v, Err: err})
	}
}

// usedAll records the send of a batch in a simulated graph.
func (in *KeyedInput[K, V]) usedAll(do string, ks []K, vs []V, err error) {
	if in.Loc.Simulated() {
		in.Loc.Used(engine.Use{Op: in.Op, Do: do, Key: slices.Clone(ks), Value: slices.Clone(vs), Err: err})
	}
}

// Readers of the outputs of a simulated graph take turns. When a reader's turn comes, what it waits for has arrived, or the
// reader learns that it never will.

// turn waits until there is an element to read, or the output has ended.
func (out *Output[T]) turn() error {
	err := out.loc.Turn(engine.Turn{Action: "read", Op: out.op, Ready: func() bool {
		out.mu.Lock()
		defer out.mu.Unlock()
		return out.off < len(out.buf) || out.ended
	}, Waits: out.op.Object(0), Wants: engine.Takes})
	if err != nil {
		return out.loc.Starved(err)
	}
	out.op.Touch(0, engine.Takes)
	if out.loc.Graph.Bounded {
		out.loc.Graph.Settings.Turns.Touch(out.op.Capacity(), engine.Reads)
	}
	return nil
}

// turn waits for the turn of a reader, and for the condition ready if it is not nil. ready is called with mu held.
func (out *ValueOutput[T]) turn(ready func() bool) error {
	if !out.loc.Simulated() {
		return nil
	}
	t := engine.Turn{Action: "look at", Op: out.op}
	if ready != nil {
		t.Ready = func() bool {
			out.mu.Lock()
			defer out.mu.Unlock()
			return ready()
		}
	}
	err := out.loc.Turn(t)
	out.op.Touch(0, engine.Reads)
	return err
}

// turn waits for the turn of a caller that looks at the entry of k, and until the output is ready.
func (out *EntryOutput[K, V]) turn(say string, k K, a engine.Access, ready func() bool) error {
	if !out.loc.Simulated() {
		return nil
	}
	err := out.loc.Turn(engine.Turn{Action: say, Op: out.op, Ready: ready, Waits: out.op.Object(engine.KeyDigest(k)), Wants: a})
	out.touch(k, a)
	return err
}

// touch records an access to the entry of k in a simulated graph.
func (out *EntryOutput[K, V]) touch(k K, a engine.Access) {
	if !out.loc.Simulated() {
		return
	}
	out.op.Touch(engine.KeyDigest(k), a)
	if a != engine.Reads {
		out.op.Touch(0, engine.Adds)
	}
}

// drops records that a step drops the entry of k.
func (out *EntryOutput[K, V]) drops(k K) { out.touch(k, engine.Writes) }

// awaitTurn waits until the entry of k exists, or the output has ended.
func (out *EntryOutput[K, V]) awaitTurn(k K, h uint64, take bool) error {
	say, a := "await", engine.Reads
	if take {
		say, a = "take", engine.Writes
	}
	err := out.turn(say, k, a, func() bool {
		out.mu.Lock()
		defer out.mu.Unlock()
		return out.ended || out.entries.Has(k, h)
	})
	if err != nil {
		err = out.loc.Starved(err)
	}
	return err
}

// nextTurn waits until there is an entry to take, or the output has ended. Taking the next entry observes the order in which
// entries came, so it touches the output as a whole.
func (out *EntryOutput[K, V]) nextTurn() error {
	err := out.loc.Turn(engine.Turn{Action: "take the next of", Op: out.op, Ready: func() bool {
		out.mu.Lock()
		defer out.mu.Unlock()
		return out.ended || out.entries.Len() > 0
	}, Waits: out.op.Object(0), Wants: engine.Takes | engine.Writes})
	if err != nil {
		return out.loc.Starved(err)
	}
	out.op.Touch(0, engine.Takes|engine.Writes)
	return nil
}
