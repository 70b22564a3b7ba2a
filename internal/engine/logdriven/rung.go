package logdriven

import (
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// A timer on which a function has failed is held by a record of kind [codec.KindRung], whose key is
// the timer's and whose value is the timer, as [engine.HeldTimer] has it, and why. It is a letter
// of the quarantine then, as a call that failed is.

// maxTimer is more than what tells a timer from others of its key.
const maxTimer = 16

// HoldsTimers reports whether there are timers that can be held.
func (l *Executor) HoldsTimers() (some bool) {
	l.loc.HeldTimers(func(*engine.Op, engine.HeldTimer) { some = true })
	return some
}

// Blame has timers fire one by one, so that [Executor.Failing] knows which one a function fails on.
func (l *Executor) Blame(on bool) {
	l.loc.HeldTimers(func(_ *engine.Op, t engine.HeldTimer) { t.Blame(on) })
}

// Failing returns the record that has the timer held on which a function failed in the last step,
// and the deadline of the timer. It reports false if no timer is to blame.
func (l *Executor) Failing(why string) (r codec.Record, at int64, ok bool) {
	l.loc.HeldTimers(func(op *engine.Op, t engine.HeldTimer) {
		k, timer, due, fires := t.Failing()
		if !fires || ok {
			return
		}
		var key []byte
		if k != nil {
			var err error
			if key, err = l.codecOf(op.Index).Append(nil, k); err != nil {
				return
			}
		}
		at, ok = due, true
		r = codec.Record{Op: op.Index, Kind: codec.KindRung, Key: key, Value: append(codec.AppendBytes(nil, timer), reason(why)...)}
	})
	return r, at, ok
}

// Held reports whether a record that has a timer held did so in the step at now. It did not if the
// timer is set later.
func (l *Executor) Held(r codec.Record, now int64) bool {
	r.Op, _ = l.numbers.Number(r.Op)
	letter := l.quarantine.calls[callKey(&r)]
	return letter != nil && letter.At == now
}

// Rung returns what the value of a record says that has a timer held.
func Rung(value []byte) (timer []byte, why string) {
	d := codec.Decoder{Data: value}
	if timer = d.Bytes(); d.Err != nil || len(timer) == 0 || len(timer) > maxTimer {
		return []byte{0}, ""
	}
	return timer, string(d.Data)
}

// hold returns what has a timer held, or not held any longer.
func hold(t engine.HeldTimer, now int64) func(*codec.Record, codec.Codec) (bool, error) {
	return func(r *codec.Record, c codec.Codec) (bool, error) {
		timer, _ := Rung(r.Value)
		return t.Hold(&codec.Record{Kind: r.Kind, Key: r.Key, Value: timer}, now, c)
	}
}

// callKey tells a call, or a timer, from all others. All timers of a key have numbers, and those
// without a key are told from others by all that there is of them.
func callKey(r *codec.Record) string {
	key := parkingKey(r.Op, r.Key)
	if r.Kind != codec.KindRung {
		return key
	}
	timer, _ := Rung(r.Value)
	if len(r.Key) > 0 {
		timer = timer[:1]
	}
	return key + "timer" + string(timer)
}
