package logdriven

import (
	"fmt"

	"github.com/millrace/millrace/internal/engine/codec"
)

// accept queues one record for the step, or behind a quarantined record of its key. If it returns an error, nothing has changed.
func (ex *Executor) accept(data []byte, now int64) (ok bool, letter, nonce uint64, err error) {
	r := &ex.record
	if *r, err = ex.decode(data); err != nil {
		return false, 0, 0, err
	}
	if r.Kind == codec.KindRetry || r.Kind == codec.KindDrop {
		ok, letter = ex.release(r, now)
		return ok, letter, r.Nonce, nil
	}
	if gone, discards := ex.numbers.gone(r.Op); gone && (discards || r.Kind == codec.KindRead || r.Kind == codec.KindTaken) {
		return false, 0, r.Nonce, nil
	}
	take, err := ex.recipient(r, now)
	if err != nil {
		return false, 0, 0, err
	}
	if r.Kind == codec.KindHeldTimer {
		if held, err := ex.read(take, r); !held || err != nil {
			return false, 0, 0, err
		}
		ex.unplanned = "a timer was quarantined"
	}
	if r.Kind == codec.KindFailed || r.Kind == codec.KindHeldTimer {
		return true, 0, 0, ex.quarantine.failed(r, data, now, ex.operator(r.Op))
	}
	if r.Source != "" { // a source counts its records: one that came before is a repeat
		if last := ex.sources.last(r.Source); !r.Seen().After(last) {
			ex.sources.set(r.Source, last, now)
			return last.After(r.Seen()) || !last.Refused, 0, r.Nonce, nil
		}
	}
	if letter, err = ex.quarantine.behind(r, data); letter != 0 || err != nil {
		ok = true
	} else if ok, err = ex.read(take, r); err != nil {
		return false, 0, 0, err
	}
	if ok && r.Kind == codec.KindAnswer && letter == 0 {
		ex.quarantine.callAnswered(r)
	}
	if r.Source != "" {
		last := r.Seen()
		last.Refused = !ok
		ex.sources.set(r.Source, last, now)
	}
	return ok, letter, r.Nonce, err
}

// decode decodes a record and replaces the name of its operator, if it has one, by the number.
func (ex *Executor) decode(data []byte) (codec.Record, error) {
	last := &ex.sender
	r, err := codec.DecodeRecordBehind(data, last.sent)
	if err != nil {
		return r, err
	}
	if r.Source == "" || r.Name != "" || r.Source != last.sent || r.Op != last.op {
		*last = sender{sent: r.Source, op: r.Op}
		if ex.numbers.resolve(&r); r.Name != "" {
			last.sent = "" // its number may change
		}
		last.source = r.Source
	}
	r.Source = last.source
	return r, nil
}

// Forgotten reports whether a record is for an operator that moves entries which can be forgotten.
func (ex *Executor) Forgotten(r *codec.Record) bool {
	at := *r
	ex.numbers.resolve(&at)
	op, ok := ex.numbers.Op(at.Op)
	return ok && op >= 0 && int(op) < len(ex.loc.Ops) && ex.loc.Ops[op].Forgets
}

// A sender is the source of the last decoded record: as it was sent to an operator with a number, and as [Numbers] resolved it.
type sender struct {
	sent   string
	op     int32
	source string
}

// operator describes the operator with a number for people.
func (ex *Executor) operator(number int32) string {
	if op, ok := ex.numbers.Op(number); ok && op >= 0 && int(op) < len(ex.loc.Ops) {
		return ex.loc.Ops[op].String()
	}
	return ""
}

// recipient returns the function that takes a record: of an input, of the output that was read, or of timers.
func (ex *Executor) recipient(r *codec.Record, now int64) (func(*codec.Record, codec.Codec) (bool, error), error) {
	s := ex.loc
	if r.Name != "" {
		if why := ex.numbers.sentBy(r.Name).misfit; why != "" {
			return nil, fmt.Errorf("%w: another program has sent it: %s", codec.ErrRecord, why)
		}
	}
	op, ok := ex.numbers.Op(r.Op)
	if !ok || op < 0 || int(op) >= len(s.Ops) {
		return nil, fmt.Errorf("%w: it is for %s, which the program does not have", codec.ErrRecord, ex.numbers.name(r))
	}
	switch {
	case r.Kind == codec.KindHeldTimer:
		if t := s.HeldTimer(op); t != nil {
			return hold(t, now), nil
		}
	case r.Kind == codec.KindRead || r.Kind == codec.KindTaken:
		if out, err := s.Output(op); err == nil {
			return out.Acknowledge, nil
		}
	case ex.input.op == op && ex.input.accept != nil:
		return ex.input.accept, nil
	default:
		if in := s.Input(op); in != nil {
			ex.input.op, ex.input.accept = op, in.Accept // the method value is an allocation
			return ex.input.accept, nil
		}
	}
	return nil, fmt.Errorf("%w: %s takes none of kind %d", codec.ErrRecord, s.Ops[op], r.Kind)
}
