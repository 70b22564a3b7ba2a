package disklog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// An op is a change of one partition that waits to become durable. One goroutine takes all
// ops that came while it synced those before, of all partitions, and makes one batch of them,
// with one sync. Only after that anybody sees what they changed.
type op struct {
	add     func(*group, *op) // adds it to the batch, or sets err; nil adds nothing
	p       *partition
	records [][]byte   // of an append
	packed  int        // bytes they take in a message
	file    recordsRef // the file of the records, if they have one
	purpose journal.Purpose
	size    int    // bytes they have
	fence   uint64 // that a step was made with, or that a snapshot is at
	after   uint64 // the fence that the snapshot before is at
	parcel  parcel // the step or the snapshot
	purge   purge

	built  chan struct{} // closed when a batch has a copy of what was given; nil until a group has taken it, under the lock of the queue
	result uint64        // with err, written before done is closed
	err    error
	done   chan struct{}
}

// bytes returns about how much an op adds to a batch.
func (o *op) bytes() int {
	size := len(o.parcel.data)
	if o.file.id == 0 {
		size += o.packed
	}
	return size + 64*(1+size/partSize)
}

// makesRoom reports whether an op is allowed while the disk is full.
func (o *op) makesRoom() bool { return o.purge != purge{} }

// A queue has the ops that no group has taken.
type queue struct {
	mu       sync.Mutex
	ops      []*op
	inFlight *group // the one under way, nil if there is none
	ended    bool
	wake     chan struct{} // has room for one
	runs     sync.WaitGroup
}

// A group is ops that share a sync. They are written in one batch, or in several where a step
// is expected of what the ones before have; see ahead.go.
type group struct {
	l        *Log
	ops      []*op
	fresh    []*op // of these, those for the next batch
	built    chan struct{}
	batch    *pebble.Batch
	written  bool        // a batch is written that is not durable
	timer    *time.Timer // says when no step is expected any longer; nil if none is
	late     bool        // it has
	touched  []*partition
	messages []*message    // of the batch
	ceiling  uint64        // that it makes durable, zero if it does not
	done     chan struct{} // closed when all ops have their results
}

const (
	// groupBytes bounds a batch of several ops. A larger one is not faster, and one of half a
	// memtable is written to a table at once.
	groupBytes = 1 << 20
	// messageBytes bounds a message with records of several callers.
	messageBytes = 256 << 10
)

// submit queues an op and waits for its result. After journal.ErrUnknown nobody knows it; any
// other error says that nothing was changed.
func (l *Log) submit(ctx context.Context, o *op) (uint64, error) {
	if err := l.room.check(); err != nil && !o.makesRoom() {
		return 0, err
	}
	o.done = make(chan struct{})
	q := &l.queue
	q.mu.Lock()
	if q.ended {
		q.mu.Unlock()
		return 0, context.Cause(l.ctx)
	}
	q.ops = append(q.ops, o)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	select {
	case <-o.done:
		return o.result, o.err
	case <-ctx.Done():
	}
	q.mu.Lock()
	if o.built == nil {
		q.ops = slices.DeleteFunc(q.ops, func(other *op) bool { return other == o })
		q.mu.Unlock()
		select {
		case <-o.done: // with an error
			return o.result, o.err
		default:
			return 0, context.Cause(ctx)
		}
	}
	q.mu.Unlock()
	<-o.built
	select {
	case <-o.done:
		return o.result, o.err
	default:
		return 0, fmt.Errorf("%w: %w", journal.ErrUnknown, context.Cause(ctx))
	}
}

// settle waits until everything that is visible in pebble now is durable, or was never
// acknowledged to anybody and will not be.
func (l *Log) settle(ctx context.Context) error {
	l.queue.mu.Lock()
	g := l.queue.inFlight
	l.queue.mu.Unlock()
	if g == nil {
		return nil
	}
	select {
	case <-g.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run makes groups until the log ends.
func (l *Log) run() {
	for {
		select {
		case <-l.queue.wake:
		case <-l.ctx.Done():
			l.queue.drop(context.Cause(l.ctx))
			return
		}
		for l.ctx.Err() == nil {
			g := &group{l: l, done: make(chan struct{})}
			if !l.queue.take(g) {
				break
			}
			l.commit(g)
			l.queue.mu.Lock()
			l.queue.inFlight = nil
			l.queue.mu.Unlock()
			close(g.done)
		}
	}
}

// take adds what waits to a group, and reports whether that is anything.
func (q *queue) take(g *group) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	for _, o := range q.ops {
		if bytes += o.bytes(); n > 0 && bytes > groupBytes {
			break
		}
		n++
	}
	if n == 0 {
		return false
	}
	g.fresh, g.built = q.ops[:n:n], make(chan struct{})
	if q.ops = q.ops[n:]; len(q.ops) == 0 {
		q.ops = nil
	}
	for _, o := range g.fresh {
		o.built = g.built
	}
	g.ops = append(g.ops, g.fresh...)
	q.inFlight = g
	return true
}

// drop gives all that wait an error, and all that come later.
func (q *queue) drop(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	for _, o := range q.ops {
		o.err = err
		close(o.done)
	}
	q.ops = nil
}

// refuse gives those that wait an error, when the disk becomes full, and removes files that nothing needs.
func (l *Log) refuse(err error) {
	l.spares.remove(l, 0)
	q := &l.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ops = slices.DeleteFunc(q.ops, func(o *op) bool {
		if o.makesRoom() || err == nil {
			return false
		}
		o.err = err
		close(o.done)
		return true
	})
}

// commit makes a group durable and gives its ops their results.
func (l *Log) commit(g *group) {
	err := l.enter()
	if err != nil { // the log has failed, and nothing of the group was written
		close(g.built)
		for _, o := range g.ops {
			o.err = err
			close(o.done)
		}
		return
	}
	defer l.leave()
	if err = g.write(); err == nil {
		g.publish()
	}
	for _, o := range g.ops {
		if err != nil && o.err == nil {
			o.err = err
		}
		close(o.done)
	}
}

// write writes the batches of a group, and syncs the last one, which is behind the others in
// the same log.
func (g *group) write() error {
	l := g.l
	for {
		g.build()
		close(g.built)
		waits := g.expects()
		if g.batch.Empty() && !waits && !g.written {
			return g.batch.Close()
		}
		how := pebble.Sync
		if waits {
			how = pebble.NoSync
		}
		if g.batch.Empty() {
			_ = g.batch.LogData(nil, nil) // which a sync needs
		}
		if err := l.apply(g.batch, how); err != nil {
			return unknown(err)
		}
		if !waits {
			break
		}
		g.written = true
		g.show()
		g.await()
	}
	l.counters.syncs.Add(1)
	if err := l.there(); err != nil {
		l.fail(err)
		return unknown(err)
	}
	return nil
}

// unknown is the error of an op that was under way when the log failed. It does not say that
// the disk was full, which would mean that nothing was written.
func unknown(err error) error {
	if errors.Is(err, journal.ErrFull) {
		return fmt.Errorf("%w: %v", journal.ErrUnknown, err)
	}
	return fmt.Errorf("%w: %w", journal.ErrUnknown, err)
}

// apply writes a batch. The error says why the log has failed, if it has.
func (l *Log) apply(batch *pebble.Batch, how *pebble.WriteOptions) (err error) {
	defer func() {
		if p := recover(); p != nil {
			l.fail(fmt.Errorf("disklog: the storage of %s cannot go on: %v; close the log and open it again", l.opts, p))
		}
		if failed := l.failed(); failed != nil {
			err = failed
		}
	}()
	if err := l.db.Apply(batch, how); err != nil {
		return err
	}
	return batch.Close()
}

// build makes the batch.
func (g *group) build() {
	l := g.l
	size := 128
	for _, o := range g.fresh {
		size += o.bytes()
	}
	g.batch = l.db.NewBatchWithSize(size)
	full := l.room.check()
	if need := l.number.Load() + uint64(len(g.fresh)) + lease/2; need > max(l.ceiling.Load(), g.ceiling) && full == nil {
		g.ceiling = need + lease
		g.counter(g.ceiling)
	}
	for _, o := range g.fresh {
		if o.p != nil && !o.p.touched {
			o.p.touched, o.p.next = true, o.p.now
			g.touched = append(g.touched, o.p)
		}
		switch {
		case o.add == nil:
		case full != nil && !o.makesRoom():
			o.err = full
		default:
			o.add(g, o)
		}
	}
	for _, m := range g.messages {
		m.write(g)
		m.p.open = nil
	}
	g.messages, g.fresh = nil, nil
}

// publish makes what the group changed visible.
func (g *group) publish() {
	if g.ceiling != 0 {
		g.l.ceiling.Store(g.ceiling)
	}
	for _, p := range g.touched {
		p.publish()
	}
}

// set adds a value of size bytes to the batch. Fill appends them to what it is given.
func (g *group) set(k kind, partition int, number uint64, size int, fill func([]byte) []byte) {
	set(g.batch, key(k, partition, number), size, fill)
}

func set(batch *pebble.Batch, key []byte, size int, fill func([]byte) []byte) {
	if size > partSize {
		setBytes(batch, key, fill(make([]byte, 0, size)))
		return
	}
	setPart(batch, key, 1+size, func(b []byte) []byte { return fill(append(b, 0)) })
}

// setBytes is set of a value that is there.
func setBytes(batch *pebble.Batch, key, value []byte) {
	more := max(len(value)-1, 0) / partSize
	first := value[:min(partSize, len(value))]
	setPart(batch, key, varintSize(uint64(more))+len(first), func(b []byte) []byte {
		return append(binary.AppendUvarint(b, uint64(more)), first...)
	})
	for i := 1; i <= more; i++ {
		part := value[i*partSize : min((i+1)*partSize, len(value))]
		setPart(batch, binary.BigEndian.AppendUint32(bytes.Clone(key), uint32(i)), len(part), func(b []byte) []byte { return append(b, part...) })
	}
}

func setPart(batch *pebble.Batch, key []byte, size int, fill func([]byte) []byte) {
	op := batch.SetDeferred(len(key), sumSize+size)
	copy(op.Key, key)
	if filled := fill(op.Value[sumSize:sumSize:len(op.Value)]); len(filled) != size {
		panic(fmt.Sprintf("disklog: a value of %d bytes has %d", size, len(filled)))
	}
	seal(key, op.Value)
	_ = op.Finish() // returns no error but for an index, which this batch has not
}

// deleteRange forgets the values of a kind with numbers from first to before last.
func (g *group) deleteRange(k kind, partition int, first, last uint64) {
	_ = g.batch.DeleteRange(key(k, partition, first), key(k, partition, last), nil)
}
