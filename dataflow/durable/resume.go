package durable

import "context"

// callResumption says when the asynchronous calls of a restored partition are repeated. A process that has ended may
// have left answers among the records that no step had taken, so calls are repeated only after steps have taken
// the records that the restore found.
type callResumption struct {
	after uint64 // position of the last of these records
	done  bool
}

// resumeAfter notes the end of these records, and repeats the calls at once if there are none.
func (o *owner) resumeAfter(ctx context.Context, from *source) (err error) {
	if o.resuming.after, err = from.reader.Last(ctx); err != nil {
		return err
	}
	o.resume()
	return nil
}

// resume repeats the calls if it is time.
func (o *owner) resume() {
	if !o.resuming.done && o.last.taken >= o.resuming.after {
		o.resuming.done = true
		o.executor.Resume()
	}
}
