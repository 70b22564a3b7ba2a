package port

import (
	"fmt"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
)

// In a log-driven graph a requested call is part of the state until its answer is in the history. So after a crash a call is made
// again if its answer was not there, and only the first answer counts.

// Emit makes the calls that the step requested pending. They begin when the step is durable.
func (a *async[K, V, U]) Emit(dst []byte, _ codec.Codec) ([]byte, error) {
	for i, k := range a.step.K {
		if p, added := a.pending.Put(k, a.step.H[i]); added {
			*p = a.step.V[i]
			a.fresh.K = append(a.fresh.K, k)
			a.fresh.V = append(a.fresh.V, a.step.V[i])
			a.fresh.H = append(a.fresh.H, a.step.H[i])
		}
	}
	engine.ClearEntries(&a.step)
	return dst, nil
}

// Accept queues the answer to a pending call.
func (in *answers[K, V, U]) Accept(r *codec.Record, c codec.Codec) (bool, error) {
	a := in.to
	var k K
	var u U
	if r.Kind == codec.KindFailed || r.Kind == codec.KindDrop {
		return in.acceptFailed(r, c)
	}
	if r.Kind != codec.KindAnswer {
		return false, fmt.Errorf("%w: it is of kind %d, for %s", codec.ErrRecord, r.Kind, a.op)
	}
	if err := decodeEntry(r, c, &k, &u); err != nil {
		return false, fmt.Errorf("%w for %s", err, a.op)
	}
	h := a.in.hash.Hash(k)
	if !a.pending.Delete(k, h) {
		return false, nil // the call was made twice, and answered before
	}
	engine.AppendEntry(&a.in.buf, true, k, u, h)
	a.in.Accepted(in, 1)
	return true, nil
}

// acceptFailed makes a failed call again, or forgets it. It reports false if the call has been answered meanwhile.
func (in *answers[K, V, U]) acceptFailed(r *codec.Record, c codec.Codec) (bool, error) {
	a := in.to
	var k K
	if err := c.Decode(r.Key, &k); err != nil {
		return false, fmt.Errorf("dataflow: decoding the key of a call of %s: %w", a.op, err)
	}
	h := a.in.hash.Hash(k)
	if r.Kind == codec.KindDrop {
		return a.pending.Delete(k, h), nil
	}
	v := a.pending.Get(k, h)
	if v != nil {
		a.fresh.K, a.fresh.V, a.fresh.H = append(a.fresh.K, k), append(a.fresh.V, *v), append(a.fresh.H, h)
	}
	return v != nil, nil
}

// made makes a call and submits its answer. It reports false if the flow has ended, so that the answer is of no use.
func (a *async[K, V, U]) made(k K, v V, h uint64) bool {
	u, ok := a.counted(k, v)
	switch {
	case !ok:
		return a.keepsFailures() && a.loc.Graph.Ctx.Err() == nil
	case a.pending == nil:
		a.in.answer(k, u, h)
	case a.loc.Graph.Ctx.Err() != nil: // the result may be worthless: f is called again
		return false
	default:
		err := a.answered(k, u)
		if err != nil && a.keepsFailures() && a.failed(k, err) == nil {
			err = nil
		}
		if err != nil {
			a.loc.Graph.Fail(err)
			return false
		}
	}
	return true
}

// keepsFailures reports whether a failed call is recorded in the history, as its answer would be, instead of ending the flow.
func (a *async[K, V, U]) keepsFailures() bool { return a.pending != nil && a.loc.Graph.Settings.Failed }

// failed records in the history that a call failed.
func (a *async[K, V, U]) failed(k K, why error) error {
	key, err := a.loc.Graph.Settings.Codec.Append(nil, k)
	if err != nil {
		return err
	}
	text := why.Error()
	r := codec.Record{Op: a.op.Index, Kind: codec.KindFailed, Key: key, Value: []byte(text[:min(len(text), 4<<10)])}
	return a.loc.Graph.Settings.Answer(r)
}

// Begin starts the calls that the last step requested. Before Resume it starts none: their answers may be in records that no step
// has taken yet.
func (a *async[K, V, U]) Begin() {
	if a.lives != nil {
		a.lives.committed()
	}
	fresh := a.fresh
	a.fresh = engine.Columns[K, V]{}
	if a.resumed {
		a.enqueueCommitted(fresh)
	}
}

// Resume starts all calls that have no answer and are not held. A call of a life that is over is begun, too, so that it is no longer
// pending, but returns at once: who was to end its context ended in another process.
func (a *async[K, V, U]) Resume(held func(key []byte) bool) {
	a.fresh, a.resumed = engine.Columns[K, V]{}, true
	var all engine.Columns[K, V]
	over := make(map[uint64]uint32)
	for k, v := range keyed.All(a.pending) {
		if a.lives != nil {
			if life, present := a.life(k); !present {
				over[life]++
			}
		}
		if held != nil {
			if key, err := a.loc.Graph.Settings.Codec.Append(nil, k); err == nil && held(key) {
				continue
			}
		}
		all.K, all.V, all.H = append(all.K, k), append(all.V, *v), append(all.H, a.in.hash.Hash(k))
	}
	if a.lives != nil {
		a.lives.resume(over)
	}
	a.enqueueCommitted(all)
}

func (a *async[K, V, U]) enqueueCommitted(c engine.Columns[K, V]) {
	if len(c.K) > 0 {
		a.mu.Lock()
		a.enqueue(&c)
		a.mu.Unlock()
	}
}

// answered makes an answer part of the history.
func (a *async[K, V, U]) answered(k K, u U) error {
	c := a.loc.Graph.Settings.Codec
	key, err := c.Append(nil, k)
	if err != nil {
		return err
	}
	value, err := c.Append(nil, u)
	if err != nil {
		return err
	}
	r := codec.Record{Op: a.op.Index, Kind: codec.KindAnswer, Key: key, Value: value}
	return a.loc.Graph.Settings.Answer(r)
}

// Full reports whether more calls are waiting than the limit allows.
func (a *async[K, V, U]) Full() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiting() > a.loc.Graph.Settings.Queue
}

// PlacedBy implements [engine.Calling].
func (a *async[K, V, U]) PlacedBy(i int) (affinity string, ok bool) {
	if a.in.place == nil {
		return "", false
	}
	return a.in.place(a.simulated.K[i]), true
}
