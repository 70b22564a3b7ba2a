package logdriven

import (
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// A timer on which a function has failed is held by a record of kind [codec.KindHeldTimer]. The record's key is that of the timer; its
// value is the identification of the timer, as [engine.HeldTimer] has it, and the reason. The record is then a letter of the
// quarantine, like that of a failed call.

// maxTimer is more than the length of a timer's identification.
const maxTimer = 16

// HoldsTimers reports whether some timers can be held.
func (ex *Executor) HoldsTimers() (some bool) {
	ex.loc.HeldTimers(func(*engine.Op, engine.HeldTimer) { some = true })
	return some
}

// Blame makes timers fire one by one, so that [Executor.Failing] knows on which one a function fails.
func (ex *Executor) Blame(on bool) {
	ex.loc.HeldTimers(func(_ *engine.Op, t engine.HeldTimer) { t.Blame(on) })
}

// Failing returns the record that holds the timer on which a function failed in the last step, and the deadline of the timer. It
// reports false if no timer is to blame.
func (ex *Executor) Failing(why string) (r codec.Record, at int64, ok bool) {
	ex.loc.HeldTimers(func(op *engine.Op, t engine.HeldTimer) {
		k, timer, due, fires := t.Failing()
		if !fires || ok {
			return
		}
		var key []byte
		if k != nil {
			var err error
			if key, err = ex.codecOf(op.Index).Append(nil, k); err != nil {
				return
			}
		}
		at, ok = due, true
		r = codec.Record{Op: op.Index, Kind: codec.KindHeldTimer, Key: key, Value: append(codec.AppendBytes(nil, timer), reason(why)...)}
	})
	return r, at, ok
}

// Held reports whether a record that holds a timer took effect in the step at now. It did not if the timer was set later.
func (ex *Executor) Held(r codec.Record, now int64) bool {
	r.Op, _ = ex.numbers.Number(r.Op)
	letter := ex.quarantine.calls[callKey(&r)]
	return letter != nil && letter.At == now
}

// DecodeHeldTimer decodes the value of a record that holds a timer.
func DecodeHeldTimer(value []byte) (timer []byte, why string) {
	d := codec.Decoder{Data: value}
	if timer = d.Bytes(); d.Err != nil || len(timer) == 0 || len(timer) > maxTimer {
		return []byte{0}, ""
	}
	return timer, string(d.Data)
}

// hold returns the function that applies a record to a timer: it holds, fires or drops it.
func hold(t engine.HeldTimer, now int64) func(*codec.Record, codec.Codec) (bool, error) {
	return func(r *codec.Record, c codec.Codec) (bool, error) {
		timer, _ := DecodeHeldTimer(r.Value)
		return t.Hold(&codec.Record{Kind: r.Kind, Key: r.Key, Value: timer}, now, c)
	}
}

// callKey identifies a call or a timer. The timers of a key are distinguished by their numbers; those without a key by their
// whole identification.
func callKey(r *codec.Record) string {
	key := parkingKey(r.Op, r.Key)
	if r.Kind != codec.KindHeldTimer {
		return key
	}
	timer, _ := DecodeHeldTimer(r.Value)
	if len(r.Key) > 0 {
		timer = timer[:1]
	}
	return key + "timer" + string(timer)
}
