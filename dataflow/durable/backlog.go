package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A Lag is durable records that no step has taken: how far a partition is behind its senders.
type Lag struct{ Records, Bytes int }

func (l Lag) over(most Lag) bool { return l.Records > most.Records || l.Bytes > most.Bytes }

func (l Lag) plus(d Lag) Lag { return Lag{l.Records + d.Records, l.Bytes + d.Bytes} }

func (l Lag) minus(d Lag) Lag { return Lag{max(l.Records-d.Records, 0), max(l.Bytes-d.Bytes, 0)} }

// half returns half of l, rounded up, so that one record remains.
func (l Lag) half() Lag { return Lag{(l.Records + 1) / 2, (l.Bytes + 1) / 2} }

func lagOf(records [][]byte) (l Lag) {
	for _, r := range records {
		l.Records, l.Bytes = l.Records+1, l.Bytes+len(r)
	}
	return l
}

// A BacklogError says that nothing was sent, because the partition has not taken enough of the earlier records,
// see [Options].MaxLag, or because the log is full, see [Options].MaxBytes.
type BacklogError struct {
	Partition int
	Lag       Lag   // as far as this process knows
	Stopped   bool  // the partition, in another process, takes nothing until somebody reads its outputs there
	Err       error // the cause of the context's end, or ErrNoRoom if [Options].Reject is set; wraps journal.ErrFull if the log is full
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

// Unwrap returns why the send no longer waits.
func (e *BacklogError) Unwrap() error { return e.Err }

// Busy reports that the same send may succeed a little later. Package serve answers 503.
func (*BacklogError) Busy() bool { return true }

// fewRecords is how many records a process may have in flight to a partition whose owner has been silent for
// longer than the lease.
const fewRecords = 64

// leastShare is how many bytes one of several senders may always fill, if they are free.
const leastShare = 512 << 10

// An owner's report is stale after a while. While it has something to report, the owner reports every reportEvery.
const (
	stale       = time.Second
	reportEvery = 100 * time.Millisecond
)

// A backlog is what this process knows of the records of a partition that no step has taken: how many there
// were up to a position, and what this process itself has sent after it. The owner of the partition knows them
// up to the last message that it has read. Other processes know what the owner reported. The mu of the partitionGateway
// guards it.
type backlog struct {
	known  Lag           // untaken records up to the position upTo
	upTo   uint64        // not less than the position of any record in known
	behind []sent        // sent by this process after upTo, and acknowledged by the log
	beyond Lag           // the sum of behind
	going  Lag           // what this process is sending now
	waits  []wait        // in order: when the untaken records were read, for a partition that this process owns
	less   chan struct{} // closed when there is less, or the owner has reported; nil unless somebody waits

	// For a partition that another process owns:
	stopped bool      // it takes nothing
	heard   time.Time // when the owner last reported; zero if it never did
	taken   uint64    // how far the owner had taken records then

	// For a partition that this process owns and others may send to:
	reportNow  chan struct{} // of capacity 1: report now
	reported   backlogReport // the last report
	reportedAt time.Time
}

// A sent is a group of records that the log has acknowledged.
type sent struct {
	at   uint64
	size Lag
}

// A wait says when the owner read the first of the records that are up to a position, and after the previous
// wait.
type wait struct {
	upTo  uint64
	since time.Time
}

// minWaitInterval is the least time between two waits.
const minWaitInterval = 100 * time.Millisecond

// begin notes that records up to a position have been read.
func (b *backlog) begin(upTo uint64) {
	now := time.Now()
	if n := len(b.waits); n > 0 && now.Sub(b.waits[n-1].since) < minWaitInterval {
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

// lag returns the durable records that were not taken.
func (b *backlog) lag() Lag { return b.known.plus(b.beyond) }

// waiting returns how long the oldest record has waited.
func (b *backlog) waiting() time.Duration {
	if len(b.waits) == 0 {
		return 0
	}
	return time.Since(b.waits[0].since)
}

// mine returns the records that this process has in flight and that are not in known.
func (b *backlog) mine() Lag { return b.going.plus(b.beyond) }

// reach notes that known counts all records up to a position.
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

// room reports whether records of a size may be sent. A single call is never held back for its own size alone.
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
		may = Lag{may.Records / 2, may.Bytes / 2} // may be zero
	}
	return !mine.plus(size).over(may)
}

// share returns how much of the free space one of several senders may fill before the owner reports how much is
// left: a quarter, since the owner reports whenever a quarter is filled.
func share(free Lag) Lag {
	return Lag{min(free.Records, max(free.Records/4, fewRecords)), min(free.Bytes, max(free.Bytes/4, leastShare))}
}

// sending counts records as being sent. If they are held back, it first waits until there is space. Records
// that free space, such as a note that something was read, are not held back.
func (g *gateway) sending(ctx context.Context, p int, size Lag, heldBack bool) error {
	w := g.partitions[p]
	for {
		w.mu.Lock()
		b := &w.backlog
		if !heldBack || b.room(size, &g.opts, w.owned || g.shared == nil) {
			b.going = b.going.plus(size)
			w.mu.Unlock()
			return nil
		}
		full := &BacklogError{Partition: p, Lag: b.known.plus(b.mine()), Stopped: b.stopped}
		if b.less == nil {
			b.less = make(chan struct{})
		}
		less, silent, runs := b.less, g.opts.Lease-time.Since(b.heard), w.runs
		w.mu.Unlock()
		if g.opts.Reject {
			full.Err = ErrNoRoom
			return full
		}
		var lease <-chan time.Time // when it is over, a few records may be sent to a silent owner
		if silent > 0 {
			lease = time.After(silent + time.Millisecond)
		}
		select {
		case <-less:
		case <-lease:
		case <-runs.Done(): // the partition takes nothing any longer
			return context.Cause(runs)
		case <-ctx.Done():
			full.Err = context.Cause(ctx)
			return full
		case <-g.done:
			return ErrStopped
		}
	}
}

// sent notes the result of a send: the log stored the records at a position, or the result is unknown. In the
// latter case whoever reads the records counts them.
func (pg *partitionGateway) sent(size Lag, at uint64, err error) {
	pg.mu.Lock()
	defer pg.mu.Unlock()
	b := &pg.backlog
	b.going = b.going.minus(size)
	if err == nil && at > b.upTo {
		b.behind, b.beyond = append(b.behind, sent{at, size}), b.beyond.plus(size)
		return
	}
	b.changed()
}

// restored notes that the owner begins with the records after a position.
func (pg *partitionGateway) restored(taken uint64) {
	pg.mu.Lock()
	defer pg.mu.Unlock()
	b := &pg.backlog
	b.known, b.stopped, b.reported, b.reportedAt, b.waits = Lag{}, false, backlogReport{}, time.Time{}, nil
	b.reach(taken)
}

// ahead notes that the owner has read messages up to a position, which no step has taken yet.
func (pg *partitionGateway) ahead(upTo uint64, size Lag, most Lag) {
	pg.mu.Lock()
	defer pg.mu.Unlock()
	b := &pg.backlog
	b.known = b.known.plus(size)
	b.begin(upTo)
	b.reach(upTo)
	b.cross(most)
}

// cross triggers a report if the backlog has crossed a quarter of its bound since the last report, or is not
// empty after a silence.
func (b *backlog) cross(most Lag) {
	quarter := func(l Lag) int { return max(4*l.Records/most.Records, 4*l.Bytes/most.Bytes) }
	if quarter(b.known) != quarter(b.reported.lag) || b.known != (Lag{}) && time.Since(b.reportedAt) > stale {
		signal(b.reportNow)
	}
}
