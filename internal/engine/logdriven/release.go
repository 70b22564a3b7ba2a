package logdriven

import (
	"fmt"

	"github.com/millrace/millrace/internal/engine/codec"
)

// release handles a letter again, or what waits behind it: the records are accepted in order. It reports false if there is no
// such letter. If a record still cannot be read, that record and those behind it stay, and release returns the number of the
// letter.
func (ex *Executor) release(r *codec.Record, now int64) (ok bool, stays uint64) {
	i := ex.quarantine.find(r.Number)
	if i < 0 {
		return false, 0
	}
	letter := ex.quarantine.take(i)
	records := letter.Records
	if r.Kind == codec.KindDrop && (letter.call || letter.answer && len(r.Value) > 0) {
		ex.drop(letter, now)
		return true, 0
	}
	if r.Kind == codec.KindDrop {
		records = records[1:]
	}
	for i, data := range records {
		if err := ex.acceptAgain(data, now); err != nil {
			ex.quarantine.add(&Letter{
				ID: letter.ID, Op: letter.Op, Key: letter.Key, Reason: reason(err.Error()), At: now, Records: records[i:], parked: letter.parked,
			})
			return true, letter.ID
		}
	}
	return true, 0
}

// drop drops a call, with its answer if it has one, or a timer. There is none if its operator is gone.
func (ex *Executor) drop(letter *Letter, now int64) {
	r, err := ex.decode(letter.Records[0])
	if err != nil {
		return
	}
	take, err := ex.recipient(&r, now)
	if err != nil {
		return
	}
	r.Kind = codec.KindDrop
	ex.read(take, &r)
}

// acceptAgain queues a record for the step that was taken before, so that its number at its source is known already.
func (ex *Executor) acceptAgain(data []byte, now int64) error {
	r, err := ex.decode(data)
	if err != nil {
		return err
	}
	take, err := ex.recipient(&r, now)
	if err != nil {
		return err
	}
	if r.Kind == codec.KindHeldTimer {
		r.Kind = codec.KindRetry
	}
	_, err = ex.read(take, &r)
	return err
}

// read passes a record to its recipient. If the codec panics, the record cannot be read.
func (ex *Executor) read(take func(*codec.Record, codec.Codec) (bool, error), r *codec.Record) (ok bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: reading it panicked: %v", codec.ErrRecord, v)
		}
	}()
	op, _ := ex.numbers.Op(r.Op)
	return take(r, ex.codecOf(op))
}

// RetryRecord returns the record that makes the location handle a letter again. A waiting sender learns whether there is such a
// letter.
func RetryRecord(id uint64) codec.Record { return codec.Record{Kind: codec.KindRetry, Number: id} }

// DropRecord returns the record that makes the location forget a letter. A waiting sender learns whether there is such a letter.
// The value says that the call of a quarantined answer is forgotten as well. In older histories it is missing: there, the call
// stayed without an answer.
func DropRecord(id uint64) codec.Record {
	return codec.Record{Kind: codec.KindDrop, Number: id, Value: []byte{1}}
}
