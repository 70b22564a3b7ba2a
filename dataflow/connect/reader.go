package connect

import (
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect/internal/panics"
)

// A Split is a part of a source that is read in order.
type Split struct {
	// ID identifies the split together with its incarnation: a topic that was deleted and created again has other splits, since
	// its positions start again. The history of the flow contains the ID.
	ID string
	// Name is the split's name for people. If it is empty, [Split].ID is used.
	Name string
}

// String returns the split's name.
func (s Split) String() string {
	if s.Name != "" {
		return s.Name
	}
	return s.ID
}

// A Reader reads a system whose records can be read again from a position. Any number of goroutines may call its methods.
type Reader[K comparable, V any] interface {
	// Splits returns the current splits. It is called again every [Options].Discover, and when a split has ended. A split that is
	// no longer returned is still read to its end. If some splits cannot be found now, Splits returns the others together with an
	// error that says why and that passes; see [Passes].
	Splits(ctx context.Context) ([]Split, error)

	// Open returns a cursor over the records after a position, or over all if the position is zero. The error is an [ErrGap] if
	// the system no longer has all of them.
	Open(ctx context.Context, s Split, after dataflow.Position) (Cursor[K, V], error)

	// Close closes the reader. Its cursors are closed before.
	Close() error
}

// A Cursor reads one split. Only one goroutine uses it at a time.
type Cursor[K comparable, V any] interface {
	// Next waits for records and adds them to an empty batch. It may add none and only move [Batch].End. It returns io.EOF when
	// the split has ended for good, possibly together with the last records. After an error marked with [Retry], the split is
	// opened again.
	Next(ctx context.Context, b *Batch[K, V]) error

	// Confirm says that everything up to a position is durable in the flow, so the system may forget it. It is a hint: it may
	// come late, and not for each position. It is called between two calls of Next, so a cursor that needs it soon should return
	// from Next from time to time. An error ends the cursor, like an error of Next.
	Confirm(ctx context.Context, p dataflow.Position) error

	Close() error
}

// A SilentCursor is a [Cursor] that can find out whether its split is silent, or has records that Next cannot get, such as those
// on a server that does not answer. The split of any other cursor counts as silent when Next has waited for [Options].Idle and
// the last [Batch].Behind was not positive.
type SilentCursor interface {
	// Silent reports whether no records wait after those that Next has returned. It is called while another goroutine waits in
	// Next. An error says that this is not known: Silent is called again after [Options].Idle.
	Silent(ctx context.Context) (bool, error)
}

// A Receiver receives from a system that forgets what was acknowledged and delivers the rest again. Only one goroutine uses it at
// a time.
type Receiver[K comparable, V any] interface {
	// Receive waits for records and adds them to an empty batch, without positions: only Keys, Values and Bad are used. Ack is
	// called when they are durable in the flow.
	Receive(ctx context.Context, b *Batch[K, V]) (ack func(context.Context) error, err error)

	Close() error
}

// A Batch holds the records that a cursor has read, in columns. It is reused, so a cursor must not retain it. The next call of
// the cursor's Next may change what the cursor added.
type Batch[K comparable, V any] struct {
	Keys   []K
	Values []V
	At     []dataflow.Position // of the records; they grow, within a batch and from batch to batch
	Bad    []Poison            // records that could not be decoded, with their own positions

	// End is how far the split was read: the position of the last record, or a later one if what follows contained no record.
	End dataflow.Position
	// EndTime is when the record at End was written, if the system says so.
	EndTime time.Time
	// Behind is how many records wait after End, or -1 if that is not known.
	Behind int64
}

// Reset empties the batch.
func (b *Batch[K, V]) Reset() {
	clear(b.Values)
	clear(b.Bad)
	b.Keys, b.Values, b.At, b.Bad = b.Keys[:0], b.Values[:0], b.At[:0], b.Bad[:0]
	b.End, b.EndTime, b.Behind = dataflow.Position{}, time.Time{}, -1
}

// Add adds a record and moves End to it.
func (b *Batch[K, V]) Add(k K, v V, at dataflow.Position) {
	b.Keys, b.Values, b.At, b.End = append(b.Keys, k), append(b.Values, v), append(b.At, at), at
}

// AddBad adds a record that could not be decoded and moves End to it. It copies raw, up to [MaxRaw] bytes.
func (b *Batch[K, V]) AddBad(s Split, at dataflow.Position, raw []byte, cause error) {
	p := Poison{Split: s.ID, At: at, Cause: cause.Error(), Cut: len(raw) > MaxRaw}
	p.Raw = append(p.Raw, raw[:min(len(raw), MaxRaw)]...)
	b.Bad, b.End = append(b.Bad, p), at
}

// Decode calls a decode function of the program. If the function panics, Decode returns that as an error, with the stack, so that
// the record is a [Poison]: it would end the process each time it is read again.
func Decode[R, A, B any](decode func(R) (A, B, error), r R) (a A, b B, err error) {
	defer panics.Catch("decoding it", &err)
	return decode(r)
}

// MaxRaw is how many bytes of a record that could not be decoded are kept.
const MaxRaw = 64 << 10

// A Poison is a record that could not be decoded, or a range of records that a split no longer has: see [Options].SkipGaps.
type Poison struct {
	Split string // its ID
	At    dataflow.Position
	Raw   []byte // the record if its bytes are known, or the first [MaxRaw] of them
	Cut   bool   // whether the record had more bytes
	Cause string
}

// ErrGap says that a split no longer has the records after a position: they were deleted by age, truncated or lost. The error of
// [Reader].Open wraps it and says which positions are missing.
var ErrGap = errors.New("connect: records that were not read are gone")

// ErrRekeyed says that records of one key may be in more than one split from now on, although [ByKey] says that they are not.
var ErrRekeyed = errors.New("connect: records of a key may be in several splits now")

// Retry marks an error as one that passes: the split or lane is opened again after a while, and
// nothing is lost. Retry(nil) is nil.
func Retry(err error) error { return RetryAfter(err, 0) }

// RetryAfter is [Retry] for a server that asks to be left alone: the split or lane is not opened again before d is over, or splits
// are not looked for. Meanwhile the status of the split or lane has the error.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return retried{err, d}
}

type retried struct {
	error
	after time.Duration // at least
}

func (e retried) Unwrap() error { return e.error }

// Passes reports whether an error, or one that it wraps, was marked with [Retry] or [RetryAfter].
func Passes(err error) bool { return errors.As(err, new(retried)) }

// pauseAfter returns how long to wait after an error: pause, or longer if the error asks for it.
func pauseAfter(err error, pause time.Duration) time.Duration {
	var r retried
	errors.As(err, &r)
	return max(pause, r.after)
}
