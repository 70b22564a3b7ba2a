package machines

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// never is the deadline of a held timer.
const never = engine.Never

// A failing is the timer that is firing, to find the timer on which a function fails.
type failing[K comparable] struct {
	fires bool
	key   K
	id    uint8
	due   int64
}

// Blame implements [engine.HeldTimer]. While it is on, the results of a timer are pushed before the next timer fires.
func (r *timerQueue[K, S, U, A]) Blame(on bool) { r.blames = on }

// Failing implements [engine.HeldTimer].
func (r *timerQueue[K, S, U, A]) Failing() (key any, timer []byte, at int64, ok bool) {
	f := &r.failing
	return f.key, binary.AppendVarint([]byte{f.id}, f.due), f.due, f.fires
}

// Hold implements [engine.HeldTimer]. It does not hold a timer that a turn has set anew or stopped since it failed, and does not
// fire one that was set anew since it was held.
func (r *timerQueue[K, S, U, A]) Hold(x *codec.Record, now int64, c codec.Codec) (bool, error) {
	var k K
	if err := c.Decode(x.Key, &k); err != nil {
		return false, fmt.Errorf("dataflow: decoding the key of a timer of %s: %w", r.op, err)
	}
	d := codec.Decoder{Data: x.Value}
	id, due := d.Byte(), d.Int()
	if d.Err != nil {
		return false, fmt.Errorf("%w: it is of a timer of %s", codec.ErrRecord, r.op)
	}
	life, l := r.lives.GetIndex(k, r.hash.Hash(k))
	if l == nil {
		return false, nil
	}
	name := timerIDOf(life, id)
	j, set := r.timers.byID.GetIndex(name, r.timers.hash.Hash(name))
	if set == nil {
		return false, nil
	}
	at := r.timers.due.At(j)
	switch {
	case x.Kind == codec.KindHeldTimer && at == due:
		r.timers.due.Add(j, never)
	case x.Kind == codec.KindRetry && at == never:
		r.timers.due.Add(j, now)
	case x.Kind == codec.KindDrop && at == never:
		r.timers.due.Cancel(j)
		r.lives.Change(life)
		r.unlink(life, l, id)
	default:
		return false, nil
	}
	return true, nil
}
