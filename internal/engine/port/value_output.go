package port

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/token"
)

// A ValueOutput is an output of a value that changes. It keeps only the latest version, so the flow never waits for its readers.
type ValueOutput[T any] struct {
	engine.Endless
	engine.NoEntries
	loc   *engine.Location
	op    *engine.Op
	node  *engine.ValueNode[T]
	dirty bool    // changed in this step; held by the token
	taken func(T) // called with what readers receive, if not nil; see engine.CheckedReader

	mu      sync.Mutex
	value   T
	set     bool
	version uint64 // counts the steps that changed something
	ended   bool
	err     error
	readers token.WaiterChain
}

// NewValueOutput makes an output for the value of c.
func NewValueOutput[T any](c *engine.ValueNode[T], op *engine.Op) *ValueOutput[T] {
	if c.Region != nil && c.Region.Name != "" {
		engine.Misuse(op.Name, "the value is inside %s: emit it first", c.Region)
	}
	out := &ValueOutput[T]{loc: c.Loc, op: op, node: c, taken: engine.CheckedReader[T](op)}
	c.Loc.AddOutput(op, out)
	engine.CheckType[T](op)
	c.Changed(func() {
		if !out.dirty {
			out.dirty = true
			out.loc.Ports = append(out.loc.Ports, out)
		}
	})
	return out
}

// Operator implements [engine.Output].
func (out *ValueOutput[T]) Operator() *engine.Op { return out.op }

// Valued implements [engine.Output].
func (out *ValueOutput[T]) Valued() bool { return true }

// Acknowledge implements [engine.Output].
func (out *ValueOutput[T]) Acknowledge(r *codec.Record, _ codec.Codec) (bool, error) {
	return false, fmt.Errorf("%w: it is of kind %d, for %s", codec.ErrRecord, r.Kind, out.op)
}

// Release implements [engine.Port].
func (out *ValueOutput[T]) Release() {
	out.Give()
	out.Show()
}

// Show implements [engine.Port].
func (out *ValueOutput[T]) Show() bool {
	out.readers.Signal()
	out.mu.Unlock()
	return false
}

// Wake implements [engine.Port].
func (out *ValueOutput[T]) Wake() {} // Show did it

// Forget implements [engine.Port].
func (out *ValueOutput[T]) Forget() { out.dirty = false }

// Give implements [engine.Port].
func (out *ValueOutput[T]) Give() {
	out.dirty = false
	out.mu.Lock()
	out.value, out.set = out.node.Value, out.node.IsSet
	out.version++
}

// End implements [engine.Output].
func (out *ValueOutput[T]) End(err error) {
	out.mu.Lock()
	out.ended, out.err = true, err
	out.readers.Signal()
	out.mu.Unlock()
}

// Latest returns the latest released value, if there is one.
func (out *ValueOutput[T]) Latest() (T, bool) {
	out.turn(nil)
	out.mu.Lock()
	if out.taken != nil && out.set {
		out.taken(out.value)
	}
	v, ok := out.value, out.set
	out.mu.Unlock()
	if out.loc.Simulated() {
		out.loc.Used(engine.Use{Op: out.op, Do: "latest", Value: v, OK: ok})
	}
	return v, ok
}

// Next waits for a version other than seen and returns it: the value, if there is one, and the version's number, which is never
// 0. It returns io.EOF when the flow has ended and seen is the last version, and the flow's error if it failed.
func (out *ValueOutput[T]) Next(ctx context.Context, seen uint64) (v T, ok bool, version uint64, err error) {
	if !out.loc.Simulated() {
		return out.wait(ctx, seen)
	}
	if err = out.turn(func() bool { return out.version != seen || out.ended }); err == nil {
		v, ok, version, err = out.wait(ctx, seen)
	}
	out.loc.Used(engine.Use{Op: out.op, Do: "watch", Value: v, OK: ok, Err: err})
	return v, ok, version, err
}

// wait waits for a version other than seen and returns it.
func (out *ValueOutput[T]) wait(ctx context.Context, seen uint64) (v T, ok bool, version uint64, err error) {
	out.mu.Lock()
	if out.version != seen {
		defer out.mu.Unlock()
		if out.taken != nil && out.set {
			out.taken(out.value)
		}
		return out.value, out.set, out.version, nil
	}
	w := out.loc.Graph.Waiters.Get()
	out.loc.Enlist(w)
	for {
		if out.version != seen {
			v, ok, version, err = out.value, out.set, out.version, nil
			break
		}
		if err == nil && out.ended {
			if err = out.err; err == nil {
				err = io.EOF
			}
		}
		if err != nil {
			break
		}
		out.readers.Add(w)
		out.mu.Unlock()
		err = out.loc.Pause(ctx, w)
		out.mu.Lock()
		out.readers.Remove(w)
	}
	out.mu.Unlock()
	out.loc.Leave(w)
	out.loc.Graph.Waiters.Put(w)
	if out.taken != nil && ok {
		out.taken(v)
	}
	return v, ok, version, err
}

// Figures implements [engine.Output].
func (out *ValueOutput[T]) Figures() engine.OutputStatus {
	out.mu.Lock()
	defer out.mu.Unlock()
	return engine.OutputStatus{Op: out.op, Kind: engine.Value, Given: out.version}
}

// Emit appends the value at the end of the step.
func (out *ValueOutput[T]) Emit(dst []byte, c codec.Codec) (_ []byte, err error) {
	out.dirty = false
	return appendCell(dst, c, out.node.Value, out.node.IsSet)
}

// Adopt implements [engine.Output].
func (out *ValueOutput[T]) Adopt(d *codec.Decoder, c codec.Codec) {
	if d.Byte() == 1 {
		codec.DecodeValue[T](d, c)
	}
}

// Kept implements [engine.Output].
func (out *ValueOutput[T]) Kept(dst []byte, c codec.Codec) ([]byte, error) { return out.Emit(dst, c) }

// Showing implements [engine.Output].
func (out *ValueOutput[T]) Showing() func(dst []byte, c codec.Codec) ([]byte, error) {
	out.mu.Lock()
	value, set, version := out.value, out.set, out.version
	out.mu.Unlock()
	if version == 0 {
		return nil
	}
	return func(dst []byte, c codec.Codec) ([]byte, error) {
		return appendCell(dst, c, value, set)
	}
}

func appendCell[T any](dst []byte, c codec.Codec, value T, set bool) ([]byte, error) {
	if !set {
		return append(dst, 0), nil
	}
	return codec.AppendValue(append(dst, 1), c, value)
}

// Feed implements [engine.Output].
func (out *ValueOutput[T]) Feed(d *codec.Decoder, c codec.Codec, _ int) {
	var zero T
	out.node.Value, out.node.IsSet = zero, d.Byte() == 1
	if out.node.IsSet {
		out.node.Value = codec.DecodeValue[T](d, c)
	}
}
