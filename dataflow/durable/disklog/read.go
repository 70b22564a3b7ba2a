package disklog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// isUnknown reports whether it is not known if something was done.
func isUnknown(err error) bool { return errors.Is(err, journal.ErrUnknown) }

// A cursor is common to both readers: it holds their position and waits for more.
type cursor struct {
	l       *Log
	p       *partition
	ahead   bool // the reader reads ahead
	closed  chan struct{}
	closing sync.Once

	mu   sync.Mutex // held during Next, so that two callers do not get the same messages
	last uint64
}

func newCursor(l *Log, partition int, after uint64) *cursor {
	return &cursor{l: l, p: &l.partitions[partition], closed: make(chan struct{}), last: after}
}

// Close closes the reader. A waiting Next returns journal.ErrClosed.
func (c *cursor) Close() {
	c.closing.Do(func() {
		close(c.closed)
		if c.ahead {
			c.p.readAhead.Add(-1)
		}
	})
}

// wait waits until there is something to read and then calls read with the state at that moment. A
// gap, or a file that is missing or has other records, may be due to a purge. Then wait calls read once more.
func (c *cursor) wait(ctx context.Context, there func(state) (bool, error), read func(state) error) error {
	for again := false; ; {
		if err := c.l.ready(ctx, c.p.number); err != nil {
			return err
		}
		select {
		case <-c.closed:
			return journal.ErrClosed
		default:
		}
		now, changed := c.p.wait(c.ahead)
		found, err := there(now)
		if err != nil {
			return err
		}
		if found {
			if err := c.l.enter(); err != nil {
				return err
			}
			err := read(now)
			c.l.leave()
			switch {
			case (errors.As(err, new(errGap)) || errors.As(err, new(errFile))) && !again:
				if err := c.l.settle(ctx); err != nil {
					return err
				}
				again = true
				continue
			case err != nil && c.l.failed() != nil:
				return c.l.failed()
			case err != nil:
				return c.l.unreadable(c.p.number, fmt.Sprintf("after %d", c.last), err)
			}
			return nil
		}
		select {
		case <-changed:
		case <-c.closed:
		case <-c.l.ctx.Done():
		case <-ctx.Done():
		}
	}
}

// An errGap is the error of a gap between two numbers.
type errGap struct{ last, next, to uint64 }

func (e errGap) Error() string {
	if e.next == 0 {
		return fmt.Sprintf("what follows %d is gone, up to %d", e.last, e.to)
	}
	return fmt.Sprintf("what follows %d is gone: the next is %d, and %d was before it", e.last, e.next, e.to)
}

// Read returns a reader of the input after a position.
func (l *Log) Read(ctx context.Context, partition int, after uint64) (journal.Reader, error) {
	if err := l.ready(ctx, partition); err != nil {
		return nil, err
	}
	if s := l.partitions[partition].state(); after < s.purged.position {
		return nil, tooOld(after, s.purged.position)
	}
	return &reader{newCursor(l, partition, after)}, nil
}

type reader struct{ *cursor }

// Next returns a copy of the messages after the last one that it returned.
func (r *reader) Next(ctx context.Context, max int) (out []journal.Message, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err = r.wait(ctx, func(s state) (bool, error) {
		if r.last < s.purged.position {
			return false, tooOld(r.last, s.purged.position)
		}
		return s.end > r.last, nil
	}, func(s state) error {
		if r.ahead {
			if out = r.p.recent(r.last, max); len(out) > 0 {
				return nil
			}
		}
		out, err = r.messages(s.end, max)
		return err
	})
	if err != nil {
		return nil, err
	}
	r.last = out[len(out)-1].Position
	return out, nil
}

// messages reads the messages after the last one that was returned, up to a position.
func (r *reader) messages(to uint64, max int) (out []journal.Message, err error) {
	it, err := r.l.db.NewIter(between(kindRecords, r.p.number, r.last+1, to))
	if err != nil {
		return nil, err
	}
	defer func() {
		if closed := it.Close(); err == nil {
			err = closed
		}
	}()
	size, last, lastBytes := 0, r.last, uint64(0)
	for ok := it.First(); ok; ok = it.Next() {
		var t tally
		var message []byte
		position := numberOf(it.Key())
		if err := decodeAt(it, func(_ uint64, d *decoder) {
			t, message = d.tally(), d.rest
		}); err != nil {
			return nil, fmt.Errorf("the message at %d: %w", position, err)
		}
		if t.before > last || len(out) > 0 && t.before != last {
			return nil, errGap{last, position, t.before}
		}
		if len(out) > 0 {
			if size += int(t.bytes - lastBytes); size > max {
				return out, nil
			}
		}
		file, err := fileOf(message)
		if err == nil && file.id != 0 {
			message, err = r.l.readRecords(file)
		} else {
			message = bytes.Clone(message)
		}
		if err != nil {
			return nil, fmt.Errorf("the message at %d: %w", position, err)
		}
		records, err := unpack(message)
		if err != nil {
			return nil, err
		}
		out = append(out, journal.Message{Position: position, Records: records})
		last, lastBytes = position, t.bytes
	}
	if err := it.Error(); err != nil {
		return nil, err
	}
	if last != to {
		return nil, errGap{last: last, to: to}
	}
	return out, nil
}

// Last returns the position of the last message, or zero if there is none.
func (r *reader) Last(ctx context.Context) (uint64, error) {
	if err := r.l.ready(ctx, r.p.number); err != nil {
		return 0, err
	}
	if s := r.p.state(); s.end > s.purged.position {
		return s.end, nil
	}
	return 0, nil
}

// Steps returns a reader of committed steps after a fence.
func (l *Log) Steps(ctx context.Context, partition int, after uint64) (journal.StepReader, error) {
	if err := l.ready(ctx, partition); err != nil {
		return nil, err
	}
	return &stepReader{newCursor(l, partition, after)}, nil
}

type stepReader struct{ *cursor }

func (r *stepReader) Next(ctx context.Context) (out journal.Step, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var gone error
	err = r.wait(ctx, func(s state) (bool, error) {
		return s.fence > r.last, nil
	}, func(s state) error {
		out, gone = journal.Step{}, nil
		snap := r.l.db.NewSnapshot()
		defer snap.Close()
		err := r.l.steps(snap, r.p.number, r.last, s.fence, func(step journal.Step, before uint64) (bool, error) {
			if r.last != 0 && before != r.last {
				if s.stepGone.position == step.Fence {
					gone = fmt.Errorf("%w: the step after fence %d", journal.ErrPurged, r.last)
					return false, nil
				}
				return false, errGap{r.last, step.Fence, before}
			}
			out = step
			return false, nil
		})
		if err == nil && gone == nil && out.Fence == 0 {
			return errGap{last: r.last, to: s.fence}
		}
		return err
	})
	if err == nil {
		err = gone
	}
	if err != nil {
		return journal.Step{}, err
	}
	r.last = out.Fence
	return out, nil
}

// steps calls each with a copy of each step after one fence up to another, and with the fence that
// the step was committed with, until each returns false.
func (l *Log) steps(from *pebble.Snapshot, partition int, after, to uint64, each func(s journal.Step, before uint64) (bool, error)) (err error) {
	it, err := from.NewIter(between(kindStep, partition, after+1, to))
	if err != nil {
		return err
	}
	defer func() {
		if closed := it.Close(); err == nil {
			err = closed
		}
	}()
	for ok := it.First(); ok; ok = it.Next() {
		var t tally
		var kept parcel
		fence := numberOf(it.Key())
		if err := decodeAt(it, func(_ uint64, d *decoder) { t, kept = d.tally(), d.parcel() }); err != nil {
			return fmt.Errorf("step %d: %w", fence, err)
		}
		data, err := l.unwrap(from, kindStepPiece, partition, kept)
		if err != nil {
			return fmt.Errorf("step %d: %w", fence, err)
		}
		if on, err := each(journal.Step{Fence: fence, Data: data}, t.before); err != nil || !on {
			return err
		}
	}
	return it.Error()
}

// unwrap returns a copy of the bytes of a step or a snapshot, which is never nil.
func (l *Log) unwrap(from *pebble.Snapshot, k kind, partition int, kept parcel) (data []byte, err error) {
	if kept.id == 0 {
		return append([]byte{}, kept.data...), nil
	}
	it, err := from.NewIter(between(k, partition, kept.id, kept.id))
	if err != nil {
		return nil, err
	}
	defer func() {
		if closed := it.Close(); err == nil {
			err = closed
		}
	}()
	data = make([]byte, 0, kept.size)
	index := 0
	for ok := it.First(); ok && uint64(len(data)) < kept.size; ok = it.Next() {
		if got := pieceIndexOf(it.Key()); got != index {
			return nil, fmt.Errorf("piece %d is gone", index)
		}
		body, err := partAt(it)
		if err != nil {
			return nil, fmt.Errorf("piece %d: %w", index, err)
		}
		data = append(data, body...)
		index++
	}
	if err := it.Error(); err != nil {
		return nil, err
	}
	if uint64(len(data)) != kept.size {
		return nil, fmt.Errorf("piece %d is gone: there are %d of %d bytes", index, len(data), kept.size)
	}
	return data, nil
}
