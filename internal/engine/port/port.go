// Package port has the ends of a flow: inputs and outputs that a program reads and writes,
// and what goes on within the flow when a step is published, exchanges between locations,
// cycles and asynchronous calls.
//
// An input takes records for a later step and implements [engine.Input]: [Input] for
// elements, [KeyedInput] for entries. An output is given what a step gave and implements
// [engine.Output]: [Output] for elements, [EntryOutput] for entries, [ValueOutput] for a
// value that changes. The files *_log.go have what a history outside needs of the larger ones.
// Start reading at Input.
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

// A port of a program holds its input or output behind one of the interfaces below, so that a
// package that has ports in its types does not mention inputs and outputs; see the interfaces of
// collections in package engine.

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

// A Receiver is what a port of elements that come out holds: an [Output].
type Receiver[T any] interface {
	Operator() *engine.Op
	Next(ctx context.Context) (T, error)
	Receive(ctx context.Context) (x T, ack func(), err error)
	ReceiveRun(ctx context.Context, most int) (Run[T], error)
	GivenBy(ctx context.Context, partition int) (n uint64, owned bool, err error)
}

// An EntryReceiver is what a port of entries that come out holds: an [EntryOutput].
type EntryReceiver[K comparable, V any] interface {
	Operator() *engine.Op
	Await(ctx context.Context, k K, take bool) (V, error)
	TakeNext(ctx context.Context) (K, V, error)
	Get(k K) (V, bool)
	Len() int
}

// A ValueReceiver is what a port of a value holds: a [ValueOutput].
type ValueReceiver[T any] interface {
	Operator() *engine.Op
	Latest() (T, bool)
	Next(ctx context.Context, seen uint64) (v T, ok bool, version uint64, err error)
}

// The compiler inlines a function of another package only if it has the function's body,
// and export data has the body of a function only if the package declares it or has
// inlined it. Inputs and outputs are generic, so their code is made in the package of
// the program, which sees neither this package nor internal/keyed. Package dataflow
// therefore instantiates one of each that is on the way of a record, see its inline.go:
// else each operation on a run token and each atomic load would be a call there.

// sendTurn waits until it is the turn of a caller that sends to an input.
func sendTurn(in *engine.InputBase) error {
	if err := in.Loc.Turn(engine.Turn{Say: "send to", Op: in.Op}); err != nil {
		return err
	}
	in.Sends()
	return nil
}

// used says what a caller has sent.
func (in *KeyedInput[K, V]) used(do string, k K, v V, err error) {
	if in.Loc.Simulated() {
		in.Loc.Used(engine.Use{Op: in.Op, Do: do, Key: k, Value: v, Err: err})
	}
}

// usedAll says what a caller has sent at once.
func (in *KeyedInput[K, V]) usedAll(do string, ks []K, vs []V, err error) {
	if in.Loc.Simulated() {
		in.Loc.Used(engine.Use{Op: in.Op, Do: do, Key: slices.Clone(ks), Value: slices.Clone(vs), Err: err})
	}
}

// Readers of the outputs of a simulated graph take turns. What a reader waits for is there when
// its turn comes, or it is told that it will never be.

// turn waits until there is an element to read, or the output has ended.
func (out *Output[T]) turn() error {
	err := out.loc.Turn(engine.Turn{Say: "read", Op: out.op, Ready: func() bool {
		out.mu.Lock()
		defer out.mu.Unlock()
		return out.off < len(out.buf) || out.ended
	}, Waits: out.op.Object(0), Wants: engine.Takes})
	if err != nil {
		return out.loc.Starved(err)
	}
	out.op.Touch(0, engine.Takes)
	if out.loc.Graph.Bounded {
		out.loc.Graph.Settings.Turns.Touch(out.op.Room(), engine.Reads)
	}
	return nil
}

// turn waits until it is the turn of a reader for which the output is ready. The condition is
// asked with mu held.
func (out *ValueOutput[T]) turn(ready func() bool) error {
	if !out.loc.Simulated() {
		return nil
	}
	t := engine.Turn{Say: "look at", Op: out.op}
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

// turn waits until it is the turn of a caller that looks at the entry of k, and the output is
// ready.
func (out *EntryOutput[K, V]) turn(say string, k K, a engine.Access, ready func() bool) error {
	if !out.loc.Simulated() {
		return nil
	}
	err := out.loc.Turn(engine.Turn{Say: say, Op: out.op, Ready: ready, Waits: out.op.Object(engine.KeyDigest(k)), Wants: a})
	out.touch(k, a)
	return err
}

// touch says that the entry of k is touched.
func (out *EntryOutput[K, V]) touch(k K, a engine.Access) {
	if !out.loc.Simulated() {
		return
	}
	out.op.Touch(engine.KeyDigest(k), a)
	if a != engine.Reads {
		out.op.Touch(0, engine.Adds)
	}
}

// drops says that a step drops the entry of k.
func (out *EntryOutput[K, V]) drops(k K) { out.touch(k, engine.Writes) }

// awaitTurn waits until the entry of k is there, or the output has ended.
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

// nextTurn waits until there is an entry to take, or the output has ended. Whoever takes the
// next one sees the order in which they came.
func (out *EntryOutput[K, V]) nextTurn() error {
	err := out.loc.Turn(engine.Turn{Say: "take the next of", Op: out.op, Ready: func() bool {
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
