package disklog

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A partition is what the log knows about a partition without reading.
//
// Now is the durable state. Next is the state after the group in progress; only the goroutine of
// groups uses it. Shown is the part of it that is written, for readers that read ahead.
type partition struct {
	log    *Log
	number int

	touched  bool // by the group in progress
	next     state
	open     *message   // the message of the batch being built that takes more records
	awaited  bool       // the group in progress contains records for which a step is expected
	fresh    []written  // messages that are written and not shown yet
	newFiles []keptFile // of messages of the group
	stepped  bool       // the group contains a step, and its owner waits for that
	late     bool       // an expected step did not come, and none has come since

	readAhead atomic.Int32 // readers that read ahead

	mu      sync.Mutex
	now     state
	shown   state
	tail    tail
	changed chan struct{}   // closed at the next change; nil if nobody waits
	writing map[uint64]bool // numbers of snapshots whose pieces are being written

	files      []keptFile  // of messages that are not purged, by position
	pieces     []keptPiece // kept pieces of the state
	pieceBytes int64       // the size of all of them, with overhead
}

// A state is the progress of a partition.
type state struct {
	end      uint64 // the last message ever
	records  tally  // up to it
	purged   total  // records that were purged
	fence    uint64 // the last step
	steps    tally  // up to it
	stepGone total  // steps that were purged; position is the first step that was not
	at       uint64 // the fence of the snapshot
	snapshot parcel // the snapshot without its data; size is zero if there is none
}

// A total describes everything up to a position.
type total struct{ position, count, bytes uint64 }

func (p *partition) publish() {
	p.touched, p.awaited, p.stepped = false, false, false
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.next
	p.files, p.newFiles = append(p.files, p.newFiles...), nil
	p.show()
}

// show makes what is written visible to readers that read ahead. The caller holds mu.
func (p *partition) show() {
	p.shown = p.next
	for _, w := range p.fresh {
		p.tail.add(w.before, journal.Message{Position: w.position, Records: w.records})
	}
	p.fresh = nil
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

func (p *partition) state() state {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// wait returns the durable state, or with ahead the written one, and a channel that is closed when
// it changes.
func (p *partition) wait(ahead bool) (state, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	if ahead {
		return p.shown, p.changed
	}
	return p.now, p.changed
}

// between returns the options of an iterator over the values of a kind with numbers from first to
// last, including all their parts and pieces.
func between(k kind, partition int, first, last uint64) *pebble.IterOptions {
	o := &pebble.IterOptions{LowerBound: key(k, partition, first)}
	if last++; last == 0 {
		o.UpperBound = key(k, partition+1, 0)
	} else {
		o.UpperBound = key(k, partition, last)
	}
	return o
}

// load reads the state of a partition when the log is opened.
func (p *partition) load() error {
	l := p.log
	const all = ^uint64(0)
	if err := l.one(kindPurged, p.number, func(_ uint64, d *decoder) {
		p.now.purged = total{d.number(), d.number(), d.number()}
	}); err != nil {
		return l.unreadable(p.number, "how far its records were purged", err)
	}
	p.now.end, p.now.records = p.now.purged.position, tally{count: p.now.purged.count, bytes: p.now.purged.bytes}
	if err := l.outermost(between(kindRecords, p.number, 0, all), (*pebble.Iterator).Last, func(n uint64, d *decoder) {
		p.now.end, p.now.records = n, d.tally()
	}); err != nil {
		return l.unreadable(p.number, "its last records", err)
	}
	if err := l.outermost(between(kindStep, p.number, 0, all), (*pebble.Iterator).Last, func(n uint64, d *decoder) {
		p.now.fence, p.now.steps = n, d.tally()
	}); err != nil {
		return l.unreadable(p.number, "its last step", err)
	}
	if err := l.outermost(between(kindStep, p.number, 0, all), (*pebble.Iterator).First, func(n uint64, d *decoder) {
		p.now.stepGone = beforeStep(n, d.tally(), d.parcel())
	}); err != nil {
		return l.unreadable(p.number, "its first step", err)
	}
	if err := l.one(kindSnapshot, p.number, func(_ uint64, d *decoder) {
		p.now.at, p.now.snapshot = d.number(), d.parcel()
		p.now.snapshot.data = nil
	}); err != nil {
		return l.unreadable(p.number, "its snapshot", err)
	}
	p.shown = p.now
	switch s := p.now; {
	case s.purged.position > s.end, s.purged.count > s.records.count, s.purged.bytes > s.records.bytes:
		return l.unreadable(p.number, "", fmt.Errorf("records are purged up to %d, and end at %d", s.purged.position, s.end))
	case s.at > s.fence:
		return l.unreadable(p.number, "", fmt.Errorf("the last step is %d, and there is a snapshot at %d", s.fence, s.at))
	}
	return nil
}

// beforeStep returns the total before a step with the given tally.
func beforeStep(fence uint64, t tally, p parcel) total {
	return total{fence, t.count - 1, t.bytes - p.size}
}

// outermost decodes the first or the last value of a range, if there is any.
func (l *Log) outermost(o *pebble.IterOptions, go_ func(*pebble.Iterator) bool, decode func(uint64, *decoder)) (err error) {
	it, err := l.db.NewIter(o)
	if err != nil {
		return err
	}
	defer func() {
		if closed := it.Close(); err == nil {
			err = closed
		}
	}()
	if !go_(it) {
		return it.Error()
	}
	if k := it.Key(); len(k) > keySize && !it.SeekGE(bytes.Clone(k[:keySize])) {
		return errors.Join(errShort, it.Error())
	}
	return decodeAt(it, decode)
}

// decodeAt decodes the value at the position of an iterator and leaves the iterator at its last
// part. What decode receives is valid until the iterator moves.
func decodeAt(it *pebble.Iterator, decode func(number uint64, d *decoder)) error {
	number := numberOf(it.Key())
	body, err := partAt(it)
	if err != nil {
		return err
	}
	d := &decoder{rest: body}
	if more := d.number(); more > 0 {
		if more > maxParts {
			return errShort
		}
		whole := append(make([]byte, 0, (1+more)*partSize), d.rest...)
		for i := uint64(1); i <= more; i++ {
			if !it.Next() || len(it.Key()) != pieceKeySize || numberOf(it.Key()) != number || pieceIndexOf(it.Key()) != int(i) {
				return errors.Join(errShort, it.Error())
			}
			if body, err = partAt(it); err != nil {
				return err
			}
			whole = append(whole, body...)
		}
		d.rest = whole
	}
	if d.err == nil {
		decode(number, d)
	}
	return d.err
}

// maxParts is more than any value of this package has.
const maxParts = 2 * MaxAppend / partSize

func partAt(it *pebble.Iterator) ([]byte, error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return nil, err
	}
	return open(it.Key(), value)
}

// one decodes the single value of a kind in a partition, if it exists.
func (l *Log) one(k kind, partition int, decode func(uint64, *decoder)) error {
	return l.outermost(between(k, partition, 0, 0), (*pebble.Iterator).First, decode)
}

// tooOld returns the error of a reader whose next message was purged.
func tooOld(after, purged uint64) error {
	return fmt.Errorf("%w: up to position %d, wanted after %d", journal.ErrPurged, purged, after)
}
