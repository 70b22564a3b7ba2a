package durable

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A measured log counts and times this process's calls of a log. That costs two readings of the clock for each
// write to a disk.
type measured struct {
	journal.Log
	partitions []lastWrites

	// reading is held while the history is read as of one moment for a copy. A snapshot saved meanwhile could
	// include records that the partitions read before do not have.
	reading hold
	sizing  sizeCache

	appends, commits, saves latency
	fenced, unknown, full   atomic.Uint64
	refused                 chan struct{} // of capacity 1: the log refused something for lack of space
}

// lastWrites are the times, in nanoseconds of Unix time, at which something of a partition was last made
// durable; zero if this process did not.
type lastWrites struct{ committed, saved atomic.Int64 }

func newMeasured(l journal.Log) *measured {
	return &measured{Log: l, partitions: make([]lastWrites, l.Partitions()), refused: make(chan struct{}, 1)}
}

// unmeasured returns the log inside a measured one, or the log itself.
func unmeasured(l journal.Log) journal.Log {
	if m, ok := l.(*measured); ok {
		return m.Log
	}
	return l
}

// MaxRecord calls [journal.MaxRecord] on the log.
func (m *measured) MaxRecord() int { return journal.MaxRecord(m.Log) }

// ReadAhead calls [journal.ReadAhead] on the log.
func (m *measured) ReadAhead(ctx context.Context, p int, after uint64) (journal.Reader, error) {
	return journal.ReadAhead(ctx, m.Log, p, after)
}

// Append measures [journal.Log.Append].
func (m *measured) Append(ctx context.Context, p int, records ...[]byte) (position uint64, err error) {
	began := time.Now()
	position, err = m.Log.Append(ctx, p, records...)
	m.count(&m.appends, began, err)
	return position, err
}

// Commit measures [journal.Log.Commit].
func (m *measured) Commit(ctx context.Context, p int, fence uint64, step []byte) (next uint64, err error) {
	began := time.Now()
	next, err = m.Log.Commit(ctx, p, fence, step)
	if now := m.count(&m.commits, began, err); err == nil {
		m.partitions[p].committed.Store(now.UnixNano())
	}
	return next, err
}

// SaveSnapshot measures [journal.Log.SaveSnapshot].
func (m *measured) SaveSnapshot(ctx context.Context, p int, after, at uint64, state []byte) error {
	if err := m.reading.enter(ctx); err != nil {
		return err
	}
	defer m.reading.leave()
	began := time.Now()
	err := m.Log.SaveSnapshot(ctx, p, after, at, state)
	if now := m.count(&m.saves, began, err); err == nil {
		m.partitions[p].saved.Store(now.UnixNano())
	}
	return err
}

// count counts a call. The duration of a failed call is not counted, since it says nothing.
func (m *measured) count(l *latency, began time.Time, err error) (now time.Time) {
	now = time.Now()
	switch {
	case err == nil:
		l.add(now.Sub(began))
	case errors.Is(err, journal.ErrFenced):
		m.fenced.Add(1)
	case errors.Is(err, journal.ErrUnknown):
		m.unknown.Add(1)
	case errors.Is(err, journal.ErrFull):
		m.full.Add(1)
		signal(m.refused)
	}
	return now
}

// condition returns why the log takes nothing now, or nil if it does or does not report it.
func (m *measured) condition() error {
	if c, ok := m.Log.(journal.Conditioned); ok {
		return c.Condition()
	}
	return nil
}

// since returns the time in at, or the zero time if at is zero.
func since(at *atomic.Int64) time.Time {
	if ns := at.Load(); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// durationBounds are the upper bounds of the classes of [Durations].
var durationBounds = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// Durations is a histogram of how long calls took.
type Durations struct {
	Count   uint64        // number of calls
	Sum     time.Duration // of all durations
	Classes []DurationClass
}

// A DurationClass is the number of calls that took no longer than Bound. It includes the calls in the classes
// with smaller bounds.
type DurationClass struct {
	Bound time.Duration
	Count uint64
}

// A latency is a histogram to which any goroutine may add.
type latency struct {
	sum     atomic.Int64
	classes [len(durationBounds) + 1]atomic.Uint64 // the last one counts durations beyond all bounds
}

func (l *latency) add(d time.Duration) {
	i := 0
	for i < len(durationBounds) && d > durationBounds[i] {
		i++
	}
	l.classes[i].Add(1)
	l.sum.Add(int64(d))
}

// durations returns a copy. A duration that is added meanwhile may be only partly in it.
func (l *latency) durations() Durations {
	d := Durations{Sum: time.Duration(l.sum.Load()), Classes: make([]DurationClass, len(durationBounds))}
	for i, bound := range durationBounds {
		d.Count += l.classes[i].Load()
		d.Classes[i] = DurationClass{bound, d.Count}
	}
	d.Count += l.classes[len(durationBounds)].Load()
	return d
}
