package durable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// A door is how the ports of this process reach the history. It finds the partition of
// a record, makes the record durable, and tells who waits what became of it.
type door struct {
	*core
	partitions []*doorway
	telling    chan struct{} // of capacity 1: full while somebody tells what was read
	halting    sync.Mutex    // held while a partition stops: who is last has to see the others
}

// A doorway is the door of one partition.
type doorway struct {
	mu           sync.Mutex
	owning       bool                              // this process tries to own the partition
	owned        bool                              // this process owns the partition, so what becomes of a record is known here
	turned       chan struct{}                     // closed when owned changes
	moved        chan struct{}                     // closed when the partition has a new owner; nil unless somebody asks
	acknowledged atomic.Uint64                     // the greatest position of what this process sent
	floor        atomic.Uint64                     // the latest step that this process knows of
	numbers      atomic.Pointer[logdriven.Numbers] // of operators in its history; nil while nobody here knows them
	learning     atomic.Bool                       // somebody asks for them
	unanswered   atomic.Bool                       // nobody has told them since the partition has moved

	taken   uint64              // how far committed steps took records
	applied uint64              // the same, of steps that the ports show; behind taken for a moment
	waiting map[uint64]*verdict // by nonce
	refused map[uint64]uint64   // numbers in the quarantine, or 0, by the nonces of refusals
	refusals
	shut      chan struct{}    // open while the partition takes nothing; nil else
	full      *engine.Blocked  // why it takes nothing; nil else
	since     time.Time        // when that began
	reads     map[int32]uint64 // how far readers are, by operator, and nobody was told
	readsTold uint64           // position of the last message that told it
	backlog   backlog
	letters   []Letter                // what is in quarantine, as far as this process knows
	runs      context.Context         // ends when the partition, which this process owns, stops
	halt      context.CancelCauseFunc // ends it
	reports
	gaveBack error // why this process refuses the partition; nil if it does not

	pressed chan struct{} // of capacity 1: the log needs room
	worth   atomic.Int64  // bytes of history that are worth a snapshot then
	saved   atomic.Int64  // bytes of the state that was saved last
}

func newDoor(c *core) *door {
	d := &door{core: c, partitions: make([]*doorway, c.log.Partitions()), telling: make(chan struct{}, 1)}
	for i := range d.partitions {
		d.partitions[i] = &doorway{
			waiting: make(map[uint64]*verdict), refused: make(map[uint64]uint64),
			reads: make(map[int32]uint64), turned: make(chan struct{}),
			reports: reports{wanted: make(chan struct{}, 1)}, pressed: make(chan struct{}, 1), backlog: backlog{tell: make(chan struct{}, 1)},
		}
		d.partitions[i].runs, d.partitions[i].halt = context.WithCancelCause(context.Background())
	}
	return d
}

// encode appends a record for a partition, of the operator with an index. It says the number
// that the history knows the operator by, or its identity while this process does not know the
// number: of a partition that another process owns, it asks for that.
func (d *door) encode(dst []byte, p int, r codec.Record) []byte {
	way := d.partitions[p]
	numbers, op := way.numbers.Load(), r.Op
	if numbers == nil && d.peers != nil && way.learning.CompareAndSwap(false, true) {
		go func() {
			defer way.learning.Store(false)
			ctx, cancel := context.WithTimeout(d.ctx, askWithin)
			defer cancel()
			_, _ = d.peers.learn(ctx, p) // else the next send asks again
		}()
	}
	if numbers != nil {
		if number, ok := numbers.Number(op); ok {
			r.Op = number
			return r.Encode(dst)
		}
	}
	site, _ := d.layout.place(p)
	sender := d.senders[site][op]
	r.Name = sender.Sent()
	return r.Encode(dst)
}

// agree returns an error if what this program sends to an operator is not what the history takes.
// Nobody may be there who knows that. Then the record says what it has, and the next owner
// compares it.
func (d *door) agree(ctx context.Context, p int, op int32) error {
	way := d.partitions[p]
	numbers := way.numbers.Load()
	if numbers == nil && d.peers != nil && !way.unanswered.Load() {
		asking, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		var err error
		if numbers, err = d.peers.learn(asking, p); err != nil && ctx.Err() == nil {
			way.unanswered.Store(true) // who sends next does not wait for it
		}
	}
	if numbers == nil {
		return nil
	}
	if why := numbers.Misfit(op); why != "" {
		return misfitError(p, why)
	}
	return nil
}

func misfitError(p int, why string) error {
	return fmt.Errorf("%w: partition %d: %s", ErrChanged, p, why)
}

// append makes records durable, once the partition takes some and the log has room.
func (d *door) append(ctx context.Context, p int, records ...[]byte) (at uint64, err error) {
	if err = d.partitions[p].failure(); err == nil {
		err = d.partitions[p].room(ctx, d.facade, d.done)
	}
	if err == nil {
		at, err = d.counted(ctx, p, true, d.keep, records)
	}
	if err != nil && d.ctx.Err() != nil {
		return 0, d.refusal()
	}
	return at, err
}

// keep makes records durable, once the log has room. A position that was taken before they
// were sent is not an acknowledgement: no step would take them.
func (d *door) keep(ctx context.Context, p int, records ...[]byte) (uint64, error) {
	taken := d.partitions[p].takenUpTo()
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		at, err := d.write(ctx, p, records...)
		if err == nil && at <= taken && len(records) > 0 {
			return 0, fmt.Errorf("%w: partition %d took records up to message %d, and new ones are at %d: the records were replaced by an older copy", ErrDamaged, p, taken, at)
		}
		if !errors.Is(err, journal.ErrFull) {
			return at, err
		}
		if d.opts.Reject && journal.PurposeOf(ctx, journal.ToSend) == journal.ToSend {
			return 0, d.full(p, err, ErrNoRoom)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return 0, d.full(p, err, context.Cause(ctx))
		case <-d.done:
			return 0, ErrStopped
		}
	}
}

// Read notes how far readers are. They are told to the history a little later, all at
// once: after a crash, what was read since comes again.
func (d *door) Read(_ int, op int32, partition int, number uint64) {
	way := d.partitions[partition]
	way.mu.Lock()
	way.reads[op] = max(way.reads[op], number)
	way.mu.Unlock()
	select {
	case d.readers <- struct{}{}:
	default:
	}
}

// Given has the owner of a partition look how much it has given.
func (d *door) Given(ctx context.Context, op int32, partition int) (n uint64, owned bool, err error) {
	if partition < 0 || partition >= len(d.partitions) {
		return 0, false, nil
	}
	err = d.between(ctx, partition, func(s *engine.Location) {
		for _, out := range s.OutputsInOrder {
			if out.Operator().Index == op {
				n, owned = out.Figures().Given, true
			}
		}
	})
	return n, owned, err
}

// tellReads makes what was read part of the history.
func (d *door) tellReads(ctx context.Context) {
	select {
	case d.telling <- struct{}{}: // who waits for it has what others were telling told as well
	case <-ctx.Done():
		return
	}
	defer func() { <-d.telling }()
	for p, way := range d.partitions {
		way.mu.Lock()
		var records [][]byte
		for op, number := range way.reads {
			records = append(records, d.encode(nil, p, logdriven.ReadRecord(op, number)))
		}
		was := maps.Clone(way.reads)
		clear(way.reads)
		way.mu.Unlock()
		if len(records) == 0 {
			continue
		}
		at, err := d.core.append(journal.For(ctx, journal.ToSave), p, records...)
		if errors.Is(err, journal.ErrFull) { // and only what is read makes room
			way.mu.Lock()
			for op, number := range was {
				way.reads[op] = max(way.reads[op], number)
			}
			way.mu.Unlock()
			signal(d.readers)
			continue
		}
		if err != nil && d.ctx.Err() == nil {
			d.opts.Logger.Warn("what was read will come again after a restart", "partition", p, "error", err)
		}
		way.mu.Lock()
		way.readsTold = max(way.readsTold, at)
		way.mu.Unlock()
	}
}

// takeReads waits until the partitions that this process owns have taken what they were told of readers, so that their last steps
// know it. It waits no longer than ctx.
func (d *door) takeReads(ctx context.Context) {
	d.tellReads(ctx)
	for _, way := range d.partitions {
		way.mu.Lock()
		told, owned := way.readsTold, way.owned
		way.mu.Unlock()
		if !owned || told == 0 {
			continue
		}
		vs := way.await([]uint64{d.nonce()})
		way.placed(vs, told)
		select {
		case <-vs[0].done:
		case <-way.running().Done():
		case <-ctx.Done():
		}
		way.forget(vs)
	}
}

// Take asks for an entry. The first one who asks in the history has it.
func (d *door) Take(ctx context.Context, site int, op int32, key []byte) error {
	r := logdriven.TakenRecord(op, key)
	err := d.decide(ctx, site, []codec.Record{r}, d.admit)[0]
	if errors.Is(err, engine.ErrDuplicate) {
		return engine.ErrTaken
	}
	return err
}

// admit makes records durable that make room, and are not held back therefore.
func (d *door) admit(ctx context.Context, p int, records ...[]byte) (at uint64, err error) {
	if err = d.partitions[p].failure(); err == nil {
		at, err = d.counted(journal.For(ctx, journal.ToSave), p, false, d.keep, records)
	}
	if err != nil && d.ctx.Err() != nil {
		return 0, d.refusal()
	}
	return at, err
}

// Want looks for an entry at the partition's owner while somebody waits for it, whenever
// that is another process. The wait ends if the partition stops.
func (d *door) Want(ctx context.Context, site int, op int32, key []byte) (_ context.Context, done func()) {
	p := d.ofKey(site, op, key)
	ctx, cancel := d.partitions[p].whileRuns(ctx)
	if d.peers == nil {
		return ctx, func() { cancel(nil) }
	}
	fetching, stop := context.WithCancel(d.ctx)
	go d.peers.fetch(fetching, p, op, key, cancel)
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// opened notes that this process runs a partition.
func (d *door) opened(p int, numbers *logdriven.Numbers) {
	way := d.partitions[p]
	way.mu.Lock()
	way.numbers.Store(numbers)
	way.turn(true)
	way.answers, way.report = true, PartitionStatus{}
	way.mu.Unlock()
}

// closed notes that this process runs a partition no more. Its ports forget the entries, since
// they do not hear any longer that one was taken; when the flow ends they can still be read.
func (d *door) closed(p int) {
	way := d.partitions[p]
	if !d.ending.Load() {
		if err := d.feedWhole(p, nil, nil); err != nil {
			d.opts.Logger.Error("entries of a partition that another process owns are still here", "partition", p, "error", err)
		}
	}
	way.mu.Lock()
	way.turn(false)
	way.open()
	if way.runs.Err() != nil {
		way.runs, way.halt = context.WithCancelCause(context.Background())
	}
	way.mu.Unlock()
}

// open notes, with mu held, that nobody has to wait for the partition to take records.
func (w *doorway) open() {
	if w.shut != nil {
		close(w.shut)
		w.shut, w.full = nil, nil
	}
}

// turn notes, with mu held, whether this process owns the partition.
func (w *doorway) turn(owned bool) {
	if w.owned != owned {
		w.owned = owned
		close(w.turned)
		w.turned = make(chan struct{})
		w.backlog.heard = time.Now() // what the last owner knew, if that was this process
		w.backlog.changed()
	}
}

func (w *doorway) isOwned() bool {
	owned, _ := w.ownership()
	return owned
}

// ownership returns whether this process owns the partition, and a channel that is
// closed when that changes.
func (w *doorway) ownership() (owned bool, turned <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owned, w.turned
}

// whenMoved returns a channel that is closed when the partition has a new owner.
func (w *doorway) whenMoved() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.moved == nil {
		w.moved = make(chan struct{})
	}
	return w.moved
}

// move notes that the partition has a new owner, whose program may have operators that the one
// before had not.
func (w *doorway) move() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.owned {
		w.numbers.Store(nil)
	}
	w.unanswered.Store(false)
	if w.moved != nil {
		close(w.moved)
		w.moved = nil
	}
}

// room waits until the partition takes records.
func (w *doorway) room(ctx context.Context, facade *engine.Graph, done <-chan struct{}) error {
	for {
		w.mu.Lock()
		shut, full := w.shut, w.full
		w.mu.Unlock()
		if shut == nil {
			return nil
		}
		select {
		case <-shut:
		case <-ctx.Done():
			return facade.BlockedError(full, context.Cause(ctx))
		case <-done:
			return ErrStopped
		}
	}
}
