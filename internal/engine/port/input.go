package port

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// An Input is an input of a plain stream.
type Input[T any] struct {
	engine.InputBase
	turns uint64          // sends begun to an input with one sender, which alone writes it; see turn.go
	last  codec.LastSeen  // of numbered sends that do not name a sender
	by    numbers[string] // of numbered sends that name their sender
	node  *engine.Node[T]
	buf   []T // accepted; guarded by the location's mu
	taken []T // held by the token, as is everything below
	off   int

	unordered *recordLanes   // of an input without order, otherwise nil
	lane      func(T) uint64 // records of one lane keep their order; nil if none do
}

// NewInput adds an input to the location.
func NewInput[T any](s *engine.Location, op *engine.Op) (*Input[T], *engine.Node[T]) {
	in := &Input[T]{InputBase: engine.InputBase{Loc: s, Op: op, Divided: true}, node: engine.NewNode[T](s.Top())}
	s.AddInput(op, in)
	s.Bases = append(s.Bases, &in.InputBase)
	engine.CheckType[T](op)
	op.Takes(in.node.Counter())
	s.Open++
	return in, in.node
}

// Send accepts x, waiting until there is room for it.
//
// The first lines are the fast path for an idle location: two atomic operations besides the run itself.
func (in *Input[T]) Send(ctx context.Context, x T) error {
	if ctx == nil {
		return misused("dataflow.InputPort", "Send")
	}
	s := in.Loc
	if !in.Shut.Load() && s.Token.Take() {
		if ok := in.stepOne(x); !ok || s.Left() {
			return s.Look(ok)
		}
		return nil
	}
	return in.sendBusy(ctx, x)
}

// misused panics: a call on the fast path was given no context. It is written as a result that the caller returns, so that the
// caller keeps no state across the call.
func misused(name, method string) error {
	engine.NilContext(name + "." + method)
	return nil
}

// sendBusy is Send for a location that is not idle. It is a separate function so that Send needs no stack space for what only
// this one uses.
func (in *Input[T]) sendBusy(ctx context.Context, x T) error {
	err := in.sendLater(ctx, x)
	if in.Loc.Simulated() {
		in.Loc.Used(engine.Use{Op: in.Op, Do: "send", Value: x, Err: err})
	}
	return err
}

func (in *Input[T]) sendLater(ctx context.Context, x T) error {
	s := in.Loc
	if err := sendTurn(&in.InputBase); err != nil {
		return err
	}
	if !in.Shut.Load() && s.Token.Await() {
		return s.After(in.stepOne(x))
	}
	s.Mu.Lock()
	how, err := s.Graph.Driver.Admit(ctx, &in.InputBase)
	if how == engine.Enqueue {
		in.buf = append(in.buf, x)
		in.Accepted(in, 1)
		return in.Kick()
	}
	s.Mu.Unlock()
	switch how {
	case engine.RunNow:
		err = s.After(in.stepOne(x))
	case engine.Elsewhere:
		_, err = in.sendRemote(ctx, x)
	}
	return err
}

// SendBatch accepts all of xs, in order, as many at a time as there is room for.
func (in *Input[T]) SendBatch(ctx context.Context, xs []T) (int, error) {
	n, err := in.sendAll(ctx, xs)
	if in.Loc.Simulated() {
		in.Loc.Used(engine.Use{Op: in.Op, Do: "send", Value: slices.Clone(xs), Err: err})
	}
	return n, err
}

func (in *Input[T]) sendAll(ctx context.Context, xs []T) (n int, err error) {
	s := in.Loc
	if err := sendTurn(&in.InputBase); err != nil {
		return 0, err
	}
	for n < len(xs) {
		how := engine.RunNow
		if in.Shut.Load() || !s.Token.Take() && !s.Token.Await() {
			s.Mu.Lock()
			if how, err = s.Graph.Driver.Admit(ctx, &in.InputBase); how != engine.Enqueue {
				s.Mu.Unlock()
			}
		}
		switch how {
		case engine.Refused:
			return n, err
		case engine.Elsewhere:
			return in.sendRemote(ctx, xs...)
		case engine.Enqueue:
			part := xs[n:min(len(xs), n+s.Graph.Settings.Queue-s.Queued)]
			in.buf = append(in.buf, part...)
			in.Accepted(in, len(part))
			if err = in.Kick(); err != nil {
				return n, err
			}
			n += len(part)
		case engine.RunNow:
			part := xs[n:min(len(xs), n+s.Graph.Settings.Queue)]
			ok := in.stepAll(part)
			if ok {
				n += len(part)
			}
			if err = s.After(ok); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// TakeAll implements [engine.Input].
func (in *Input[T]) TakeAll() {
	in.buf, in.taken = in.taken, in.buf
}

// Lift implements [engine.Input].
func (in *Input[T]) Lift(i int, again bool) (take func()) {
	x := in.buf[i]
	if !again {
		in.unordered.took(i)
		in.buf = slices.Delete(in.buf, i, i+1)
	}
	return func() { in.taken = append(in.taken, x) }
}

// RecordText implements [engine.Input].
func (in *Input[T]) RecordText(i int) string { return fmt.Sprint(in.buf[i]) }

// CopyTaken implements [engine.Input].
func (in *Input[T]) CopyTaken(at, n int) any {
	return engine.Items[T](slices.Clone(in.taken[in.off+at:][:n]))
}

// Check implements [engine.Input].
func (in *Input[T]) Check(c codec.Codec) error { return engine.Items[T](nil).Check(c) }

// Types implements [engine.Input].
func (in *Input[T]) Types() []reflect.Type { return []reflect.Type{reflect.TypeFor[T]()} }

// AppendTaken implements [engine.Input].
func (in *Input[T]) AppendTaken(dst []byte, c codec.Codec, at, n int) ([]byte, error) {
	return engine.Items[T](in.taken[in.off+at:][:n]).AppendTo(dst, c)
}

// Load implements [engine.Input].
func (in *Input[T]) Load(records any) error {
	if e, ok := records.(engine.Encoded); ok {
		return e.Decode(in.Op, func(d *codec.Decoder) { in.taken = append(in.taken, codec.DecodeValue[T](d, e.Codec)) })
	}
	xs, ok := records.(engine.Items[T])
	if !ok {
		return fmt.Errorf("%s takes %T, the recording has %T", in.Op, xs, records)
	}
	in.taken = append(in.taken, xs...)
	return nil
}

// Push pushes the next n of the taken records, and clears the buffer once none is left.
func (in *Input[T]) Push(n int) {
	in.Loc.TookOther(in.Divided)
	engine.PushBlocks(in.node, in.taken[in.off:in.off+n])
	if in.off += n; in.off == len(in.taken) {
		clear(in.taken)
		in.taken, in.off = in.taken[:0], 0
	}
}

// stepOne runs the step of one record; see [engine.StepOne].
func (in *Input[T]) stepOne(x T) bool {
	if in.Loc.Planned() {
		in.taken = append(in.taken, x)
		return in.StepTaken(1)
	}
	return engine.StepOne(in.node, x)
}

// stepAll runs the step of records whose slice remains the sender's; see [engine.StepAll].
func (in *Input[T]) stepAll(xs []T) bool {
	if in.Loc.Planned() {
		in.taken = append(in.taken, xs...)
		return in.StepTaken(len(xs))
	}
	return engine.StepAll(in.node, xs)
}

// Accept queues an element of the history.
func (in *Input[T]) Accept(r *codec.Record, c codec.Codec) (bool, error) {
	var x T
	if r.Kind != codec.KindValue {
		return false, fmt.Errorf("%w: it is of kind %d, for %s", codec.ErrRecord, r.Kind, in.Op)
	}
	if err := c.Decode(r.Value, &x); err != nil {
		return false, fmt.Errorf("dataflow: decoding a %T for %s: %w", x, in.Op, err)
	}
	in.buf = append(in.buf, x)
	in.Accepted(in, 1)
	return true, nil
}

// records encodes elements, in the memory of a slab, as records of the history.
func (in *Input[T]) records(slab *codec.Slab, xs []T) ([]codec.Record, error) {
	rs := slab.Records(len(xs))
	for i := range xs {
		value, err := codec.AppendPointed(slab.Begin(sizeOf(rs, i), len(xs)-i), in.Loc.Graph.Settings.Codec, &xs[i])
		if err != nil {
			return nil, fmt.Errorf("dataflow: encoding a %T for %s: %w", xs[i], in.Op, err)
		}
		rs[i] = codec.Record{Op: in.Op.Index, Value: slab.End(value)}
	}
	return rs, nil
}

// sendRemote sends elements as records of the history.
func (in *Input[T]) sendRemote(ctx context.Context, xs ...T) (int, error) {
	var slab codec.Slab
	defer slab.Free() // the history has a copy
	rs, err := in.records(&slab, xs)
	if err != nil || len(rs) == 0 {
		return 0, err
	}
	return in.Loc.Graph.Settings.Remote.Send(ctx, in.Loc.Number, rs)
}
