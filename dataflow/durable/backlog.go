package durable

import (
	"context"
	"fmt"
)

// A Lag is records that are durable, and that no step has taken: how far a partition is
// behind those who send to it.
type Lag struct{ Records, Bytes int }

func (l Lag) over(most Lag) bool { return l.Records > most.Records || l.Bytes > most.Bytes }

func (l Lag) plus(records [][]byte) Lag {
	for _, r := range records {
		l.Records, l.Bytes = l.Records+1, l.Bytes+len(r)
	}
	return l
}

func (l Lag) minus(d Lag) Lag { return Lag{max(l.Records-d.Records, 0), max(l.Bytes-d.Bytes, 0)} }

// A BacklogError says that a send has waited, until its context ended, for a partition to
// take what was sent before; see [Options].MaxLag. Nothing was sent.
type BacklogError struct {
	Partition int
	Lag       Lag
	Err       error // the end of the context
}

func (e *BacklogError) Error() string {
	return fmt.Sprintf("durable: partition %d has %d records, %d bytes, that no step has taken yet: %v; send less, make its functions faster, or allow more with Options.MaxLag", e.Partition, e.Lag.Records, e.Lag.Bytes, e.Err)
}

// Unwrap returns why the send waits no longer.
func (e *BacklogError) Unwrap() error { return e.Err }

// A backlog is what this process has sent to a partition that it owns, and no step has taken.
// It is guarded by the doorway's mu.
type backlog struct {
	lag  Lag
	less chan struct{} // closed when there is less; nil unless somebody waits
}

// sending notes that records are sent. It waits until there is room for them if they are held
// back; what makes room, such as that something was read, is not. What one call sends is not
// held back for its own size.
func (w *doorway) sending(ctx context.Context, p int, records [][]byte, most Lag, heldBack bool, done <-chan struct{}) (Lag, error) {
	size := Lag{}.plus(records)
	for {
		w.mu.Lock()
		is := w.backlog.lag
		if !w.owned {
			w.mu.Unlock()
			return Lag{}, nil // what its owner takes is not known here
		}
		if next := is.plus(records); !heldBack || is == (Lag{}) || !next.over(most) {
			w.backlog.lag = next
			w.mu.Unlock()
			return size, nil
		}
		if w.backlog.less == nil {
			w.backlog.less = make(chan struct{})
		}
		less := w.backlog.less
		w.mu.Unlock()
		select {
		case <-less:
		case <-ctx.Done():
			return Lag{}, &BacklogError{p, is, context.Cause(ctx)}
		case <-done:
			return Lag{}, ErrStopped
		}
	}
}

// sent notes, with mu held, that records were taken, or not sent.
func (w *doorway) sent(by Lag) {
	w.backlog.lag = w.backlog.lag.minus(by)
	if w.backlog.less != nil {
		close(w.backlog.less)
		w.backlog.less = nil
	}
}
