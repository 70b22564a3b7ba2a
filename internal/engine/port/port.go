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
