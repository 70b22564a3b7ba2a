package logdriven

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/engine/codec"
)

// Limits of a quarantine.
const (
	maxLetters     = 10_000
	maxLetterBytes = 16 << 20
	maxReason      = 4 << 10 // bytes of a reason
)

// ErrQuarantineFull says that too much was quarantined; probably the program fails on all records.
var ErrQuarantineFull = errors.New("dataflow: the quarantine is full")

// A Skip says why a record of a step is not handled: the program cannot. It is part of the step, so that a repeated step skips
// the same records, whatever the program can handle by then.
type Skip struct {
	Index    int    // of the record in the step
	Operator string // the operator that cannot handle it, if known
	Reason   string
	Park     bool // later records of its key wait behind it
}

// A Parked tells a waiting sender under which number its record is quarantined, or waits.
type Parked struct{ Nonce, Letter uint64 }

// A Letter is a quarantined record, with the records of its key that wait behind it.
type Letter struct {
	ID       uint64
	Op       int32  // number of the input
	Input    string // its name, if the program has it; set by [Executor.Letters]
	Key      []byte // encoded; nil if nothing waits behind the record and it is not of a call
	Operator string
	Reason   string
	At       int64 // time of the step, in nanoseconds since the history began
	Records  [][]byte
	parked   bool
	call     bool // it is a failed asynchronous call, or a timer on which a function failed
	answer   bool // it is the answer of an asynchronous call
}

// A quarantine holds the letters of a location, in the order in which they came.
type quarantine struct {
	next    uint64
	letters []*Letter
	changed bool               // since the last check
	unsaved bool               // changed since it was saved
	keys    map[string]*Letter // letters behind which other records wait
	calls   map[string]*Letter // letters of calls and timers
	bytes   int
}

func parkingKey(op int32, key []byte) string {
	return string(append(binary.AppendUvarint(nil, uint64(op)), key...))
}

// put quarantines a record. The record is copied.
func (q *quarantine) put(r *codec.Record, data []byte, now int64, why Skip) error {
	l := &Letter{
		ID: q.next + 1, Op: r.Op, Operator: why.Operator, Reason: why.Reason, At: now,
		Records: [][]byte{append([]byte(nil), data...)}, parked: why.Park,
	}
	if l.parked {
		l.Key = append([]byte{}, r.Key...)
	}
	q.next++
	q.add(l)
	return q.full()
}

func (q *quarantine) add(l *Letter) {
	q.touch()
	q.letters = append(q.letters, l)
	for _, r := range l.Records {
		q.bytes += len(r)
	}
	if l.parked {
		if q.keys == nil {
			q.keys = make(map[string]*Letter)
		}
		q.keys[parkingKey(l.Op, l.Key)] = l
	}
	r, err := codec.DecodeRecord(l.Records[0])
	if err != nil {
		return
	}
	l.answer = r.Kind == codec.KindAnswer
	if r.Kind == codec.KindFailed || r.Kind == codec.KindHeldTimer {
		if q.calls == nil {
			q.calls = make(map[string]*Letter)
		}
		r.Op = l.Op
		l.call = true
		q.calls[callKey(&r)] = l
	}
}

// answered returns the calls whose answers are quarantined, by parking key.
func (q *quarantine) answered() map[string]bool {
	var calls map[string]bool
	for _, l := range q.letters {
		if !l.answer {
			continue
		}
		if calls == nil {
			calls = make(map[string]bool)
		}
		if r, err := codec.DecodeRecord(l.Records[0]); err == nil {
			calls[parkingKey(l.Op, r.Key)] = true
		}
	}
	return calls
}

// failed quarantines a failed call, or a timer. If it was retried and failed again, its letter stays where it is.
func (q *quarantine) failed(r *codec.Record, data []byte, now int64, operator string) error {
	q.touch()
	why := string(r.Value)
	if r.Kind == codec.KindHeldTimer {
		_, why = DecodeHeldTimer(r.Value)
	}
	if l := q.calls[callKey(r)]; l != nil {
		l.Reason, l.At = reason(why), now
		return nil
	}
	q.next++
	q.add(&Letter{
		ID: q.next, Op: r.Op, Key: append([]byte(nil), r.Key...), Operator: operator, Reason: reason(why), At: now,
		Records: [][]byte{append([]byte(nil), data...)},
	})
	return q.full()
}

// callAnswered removes the letter of a failed call that now has an answer.
func (q *quarantine) callAnswered(r *codec.Record) {
	if l := q.calls[callKey(r)]; l != nil {
		q.take(q.find(l.ID))
	}
}

// behind queues a record behind the quarantined one of its key, and returns the number of that letter, or 0 if there is none.
func (q *quarantine) behind(r *codec.Record, data []byte) (letter uint64, err error) {
	if len(q.keys) == 0 || r.Kind != codec.KindValue && r.Kind != codec.KindAnswer || r.IsToAll() {
		return 0, nil
	}
	l := q.keys[parkingKey(r.Op, r.Key)]
	if l == nil {
		return 0, nil
	}
	l.Records = append(l.Records, append([]byte(nil), data...))
	q.bytes += len(data)
	q.touch()
	return l.ID, q.full()
}

func (q *quarantine) full() error {
	if len(q.letters) > maxLetters || q.bytes > maxLetterBytes {
		return fmt.Errorf("%w: %d records that the program cannot handle, %d bytes with what waits behind them", ErrQuarantineFull, len(q.letters), q.bytes)
	}
	return nil
}

func (q *quarantine) touch() { q.changed, q.unsaved = true, true }

// find returns the index of a letter, or -1.
func (q *quarantine) find(id uint64) int {
	for i, l := range q.letters {
		if l.ID == id {
			return i
		}
	}
	return -1
}

// take removes a letter.
func (q *quarantine) take(i int) *Letter {
	q.touch()
	l := q.letters[i]
	q.letters = append(q.letters[:i:i], q.letters[i+1:]...)
	for _, r := range l.Records {
		q.bytes -= len(r)
	}
	if l.parked {
		delete(q.keys, parkingKey(l.Op, l.Key))
	}
	if r, err := codec.DecodeRecord(l.Records[0]); l.call && err == nil {
		r.Op = l.Op
		delete(q.calls, callKey(&r))
	}
	return l
}

// Kind implements [engine.State].
func (q *quarantine) Kind() string { return "quarantine" }

// Save appends all letters: they are few and small, or the partition ends.
func (q *quarantine) Save(dst []byte, _ codec.Codec) ([]byte, error) {
	q.unsaved = false
	dst = binary.AppendUvarint(dst, q.next)
	dst = binary.AppendUvarint(dst, uint64(len(q.letters)))
	for _, l := range q.letters {
		dst = binary.AppendUvarint(dst, l.ID)
		dst = binary.AppendUvarint(dst, uint64(uint32(l.Op)))
		dst = append(dst, codec.Flag(l.parked))
		dst = codec.AppendBytes(dst, l.Key)
		dst = codec.AppendBytes(dst, []byte(l.Operator))
		dst = codec.AppendBytes(dst, []byte(l.Reason))
		dst = binary.AppendVarint(dst, l.At)
		dst = binary.AppendUvarint(dst, uint64(len(l.Records)))
		for _, r := range l.Records {
			dst = codec.AppendBytes(dst, r)
		}
	}
	return dst, nil
}

// Unchanged reports whether Save would append the same as last time.
func (q *quarantine) Unchanged() bool { return !q.unsaved }

// Load is the inverse of Save. Letters of an input that is gone are kept, so that they can be inspected and dropped.
func (q *quarantine) Load(d *codec.Decoder, _ codec.Codec) {
	*q = quarantine{next: d.Uint()}
	for range d.Count() {
		l := &Letter{ID: d.Uint(), Op: int32(uint32(d.Uint())), parked: d.Byte() == 1}
		l.Key = append([]byte(nil), d.Bytes()...)
		l.Operator, l.Reason = string(d.Bytes()), string(d.Bytes())
		l.At = d.Int()
		for range d.Count() {
			l.Records = append(l.Records, append([]byte(nil), d.Bytes()...))
		}
		if len(l.Records) == 0 {
			d.Fail()
		}
		if d.Err != nil {
			return
		}
		q.add(l)
	}
}

// Describe implements [engine.State].
func (q *quarantine) Describe(w *codec.Describer) {
	for _, l := range q.letters {
		w.Entry("letter %d: %s", l.ID, l.Reason)
	}
}

// Size implements [engine.State].
func (q *quarantine) Size() (int, uint64) { return len(q.letters), uint64(q.bytes) }

// Letters returns the letters in order. Later steps do not change the result.
func (ex *Executor) Letters() []Letter {
	all := make([]Letter, len(ex.quarantine.letters))
	for i, x := range ex.quarantine.letters {
		all[i] = *x
		all[i].Input = ex.operator(x.Op)
		all[i].Records = x.Records[:len(x.Records):len(x.Records)]
	}
	return all
}

// QuarantineChanged reports whether the quarantine has changed since the last call.
func (ex *Executor) QuarantineChanged() bool {
	was := ex.quarantine.changed
	ex.quarantine.changed = false
	return was
}

// skip quarantines a record of a step. It returns the number of the letter.
func (ex *Executor) skip(data []byte, now int64, why Skip) (letter, nonce uint64, err error) {
	why.Reason = reason(why.Reason)
	ex.quarantine.touch()
	r, err := ex.decode(data)
	if err != nil { // its operator is unknown
		r = codec.Record{Op: -1}
	}
	switch r.Kind {
	case codec.KindRetry: // it stays, now for this reason
		if i := ex.quarantine.find(r.Number); i >= 0 {
			x := ex.quarantine.letters[i]
			x.Operator, x.Reason = why.Operator, why.Reason
		}
		return r.Number, r.Nonce, nil
	case codec.KindDrop: // now the next record is the cause
		if i := ex.quarantine.find(r.Number); i >= 0 {
			x := ex.quarantine.letters[i]
			if len(x.Records) == 1 {
				ex.quarantine.take(i)
				return r.Number, r.Nonce, nil
			}
			ex.quarantine.bytes -= len(x.Records[0])
			x.Records = x.Records[1:]
			x.Operator, x.Reason = why.Operator, why.Reason
		}
		return r.Number, r.Nonce, nil
	}
	if r.Source != "" && err == nil {
		if last := ex.sources.last(r.Source); !r.Seen().After(last) {
			return 0, 0, nil // a repeat, which has no effect anyway
		}
		ex.sources.set(r.Source, r.Seen(), now)
	}
	if err != nil {
		why.Park = false
	}
	letter = ex.quarantine.next + 1
	return letter, r.Nonce, ex.quarantine.put(&r, data, now, why)
}

// reason returns text, cut to a length that can be kept.
func reason(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}
