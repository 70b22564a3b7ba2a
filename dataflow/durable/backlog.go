package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A Lag is records that are durable, and that no step has taken: how far a partition is
// behind those who send to it.
type Lag struct{ Records, Bytes int }

func (l Lag) over(most Lag) bool { return l.Records > most.Records || l.Bytes > most.Bytes }

func (l Lag) plus(d Lag) Lag { return Lag{l.Records + d.Records, l.Bytes + d.Bytes} }

func (l Lag) minus(d Lag) Lag { return Lag{max(l.Records-d.Records, 0), max(l.Bytes-d.Bytes, 0)} }

// half is at least one record.
func (l Lag) half() Lag { return Lag{(l.Records + 1) / 2, (l.Bytes + 1) / 2} }

func lagOf(records [][]byte) (l Lag) {
	for _, r := range records {
		l.Records, l.Bytes = l.Records+1, l.Bytes+len(r)
	}
	return l
}

// A BacklogError says that a partition has not taken what was sent to it before, so that there
// is no room for more; see [Options].MaxLag. Or the log has no room; see [Options].MaxBytes. Nothing
// was sent.
type BacklogError struct {
	Partition int
	Lag       Lag   // as this process knows it
	Stopped   bool  // the partition takes nothing in another process, until somebody reads its outputs there
	Err       error // the end of the context, or ErrNoRoom if [Options].Reject is set; with journal.ErrFull if the log is full
}

func (e *BacklogError) Error() string {
	if errors.Is(e.Err, journal.ErrFull) {
		return fmt.Sprintf("durable: nothing was sent to partition %d: %v", e.Partition, e.Err)
	}
	why := fmt.Sprintf("%d records, %d bytes, wait there for a step", e.Lag.Records, e.Lag.Bytes)
	if e.Stopped {
		why += ", and it takes nothing until somebody reads its outputs"
	}
	return fmt.Sprintf("durable: nothing was sent to partition %d: %s: %v; send less, make its functions faster, or allow more with Options.MaxLag", e.Partition, why, e.Err)
}

// Unwrap returns why the send waits no longer.
func (e *BacklogError) Unwrap() error { return e.Err }

// Busy reports that the same send may be accepted a little later. Package serve answers 503.
func (*BacklogError) Busy() bool { return true }

// fewRecords is how many records a process may have under way to a partition of which it has
// heard nothing for longer than the lease.
const fewRecords = 64

// What an owner says is stale after a while, and it says something each moment while there is
// something to say.
const (
	stale  = time.Second
	sayAll = 100 * time.Millisecond
)

// A backlog is what this process knows of the records of a partition that no step has taken: how
// many there were up to a position, and what it has itself sent behind that. The owner of the
// partition knows it up to the last message that it has read. Others know what the owner said.
// It is guarded by the doorway's mu.
type backlog struct {
	known  Lag           // up to the position upTo
	upTo   uint64        // greater than that of everything that counts in known
	behind []sent        // what this process has sent, and the log has acknowledged, beyond that
	beyond Lag           // the sum of those
	going  Lag           // what this process is sending
	waits  []wait        // when what is not taken was read, of a partition that this process owns; in order
	less   chan struct{} // closed when there is less, or the owner has said something; nil unless somebody waits

	// Of a partition that another process owns:
	stopped bool      // it takes nothing
	heard   time.Time // when its owner said something; zero if it never did
	taken   uint64    // how far it had taken records then

	// Of a partition that this process owns and others may send to:
	tell   chan struct{} // of capacity 1: they should hear of it now
	said   word          // what they have heard last
	saidAt time.Time
}

// A sent is records that the log has acknowledged.
type sent struct {
	at   uint64
	size Lag
}

// A wait says when the owner has read the first of the records up to a position, and behind the
// wait before.
type wait struct {
	upTo  uint64
	since time.Time
}

// waitsApart is how far the times of two waits are apart at least.
const waitsApart = 100 * time.Millisecond

// begin notes that records up to a position have come.
func (b *backlog) begin(upTo uint64) {
	now := time.Now()
	if n := len(b.waits); n > 0 && now.Sub(b.waits[n-1].since) < waitsApart {
		b.waits[n-1].upTo = upTo
		return
	}
	b.waits = append(b.waits, wait{upTo, now})
}

// end notes that records up to a position were taken.
func (b *backlog) end(upTo uint64) {
	n := 0
	for n < len(b.waits) && b.waits[n].upTo <= upTo {
		n++
	}
	b.waits = b.waits[n:]
}

// lag returns what is durable and not taken.
func (b *backlog) lag() Lag { return b.known.plus(b.beyond) }

// waiting returns how long the oldest record has waited.
func (b *backlog) waiting() time.Duration {
	if len(b.waits) == 0 {
		return 0
	}
	return time.Since(b.waits[0].since)
}

// mine returns what this process has under way that is not in known.
func (b *backlog) mine() Lag { return b.going.plus(b.beyond) }

// reach notes that all records up to a position are counted.
func (b *backlog) reach(upTo uint64) {
	b.upTo = max(b.upTo, upTo)
	n := 0
	for _, s := range b.behind {
		if s.at > b.upTo {
			b.behind[n] = s
			n++
		} else {
			b.beyond = b.beyond.minus(s.size)
		}
	}
	b.behind = b.behind[:n]
	b.changed()
}

func (b *backlog) changed() {
	if b.less != nil {
		close(b.less)
		b.less = nil
	}
}

// room reports whether records of a size may be sent. What one call sends is not held back for
// its own size.
func (b *backlog) room(size Lag, o *Options, owned bool) bool {
	mine := b.mine()
	if owned {
		is := b.known.plus(mine)
		return is == (Lag{}) || !is.plus(size).over(o.MaxLag)
	}
	silent := time.Since(b.heard)
	if b.heard.IsZero() || silent > o.Lease {
		return mine == (Lag{}) || !mine.plus(size).over(Lag{fewRecords, o.MaxLag.Bytes})
	}
	if b.stopped {
		return false
	}
	if mine == (Lag{}) && b.known == (Lag{}) {
		return true
	}
	may := share(o.MaxLag.minus(b.known))
	if silent > stale {
		may = Lag{may.Records / 2, may.Bytes / 2} // none if there is no room
	}
	return !mine.plus(size).over(may)
}

// share returns how much of a room one of several senders may fill before it hears how much is
// left: a quarter, since the owner says so when a quarter is filled.
func share(free Lag) Lag {
	return Lag{min(free.Records, max(free.Records/4, fewRecords)), min(free.Bytes, max(free.Bytes/4, appendBytes))}
}

// sending notes that records are sent. It waits until there is room for them if they are held
// back; what makes room, such as that something was read, is not.
func (d *door) sending(ctx context.Context, p int, size Lag, heldBack bool) error {
	w := d.partitions[p]
	for {
		w.mu.Lock()
		b := &w.backlog
		if !heldBack || b.room(size, &d.opts, w.owned || d.shared == nil) {
			b.going = b.going.plus(size)
			w.mu.Unlock()
			return nil
		}
		full := &BacklogError{Partition: p, Lag: b.known.plus(b.mine()), Stopped: b.stopped}
		if b.less == nil {
			b.less = make(chan struct{})
		}
		less, silent, runs := b.less, d.opts.Lease-time.Since(b.heard), w.runs
		w.mu.Unlock()
		if d.opts.Reject {
			full.Err = ErrNoRoom
			return full
		}
		var lease <-chan time.Time // then a few may be sent to an owner that says nothing
		if silent > 0 {
			lease = time.After(silent + time.Millisecond)
		}
		select {
		case <-less:
		case <-lease:
		case <-runs.Done(): // nothing is taken any longer
			return context.Cause(runs)
		case <-ctx.Done():
			full.Err = context.Cause(ctx)
			return full
		case <-d.done:
			return ErrStopped
		}
	}
}

// sent notes what became of records that were being sent: the log has them at a position, or
// nobody knows. In that case whoever reads them counts them.
func (w *doorway) sent(size Lag, at uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &w.backlog
	b.going = b.going.minus(size)
	if err == nil && at > b.upTo {
		b.behind, b.beyond = append(b.behind, sent{at, size}), b.beyond.plus(size)
		return
	}
	b.changed()
}

// restored notes that the owner begins with the records behind a position.
func (w *doorway) restored(taken uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &w.backlog
	b.known, b.stopped, b.said, b.saidAt, b.waits = Lag{}, false, word{}, time.Time{}, nil
	b.reach(taken)
}

// ahead notes that the owner has read messages up to a position, which no step has taken yet.
func (w *doorway) ahead(upTo uint64, size Lag, most Lag) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &w.backlog
	b.known = b.known.plus(size)
	b.begin(upTo)
	b.reach(upTo)
	b.cross(most)
}

// cross has others told if the backlog has crossed a quarter of what it may be since they
// heard of it, or has begun after they heard nothing for a while.
func (b *backlog) cross(most Lag) {
	quarter := func(l Lag) int { return max(4*l.Records/most.Records, 4*l.Bytes/most.Bytes) }
	if quarter(b.known) != quarter(b.said.lag) || b.known != (Lag{}) && time.Since(b.saidAt) > stale {
		signal(b.tell)
	}
}
