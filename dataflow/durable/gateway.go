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

// A gateway connects the ports of this process with the history. It finds the partition of a record, makes the
// record durable, and passes its result to the waiting caller.
type gateway struct {
	*core
	partitions     []*partitionGateway
	recordingReads chan struct{} // of capacity 1: full while a goroutine records what was read
	halting        sync.Mutex    // held while a partition stops: the last one has to see that the others have stopped
	less           atomic.Bool   // the log has refused an append of more than lessBytes
}

// A partitionGateway is the part of the gateway for one partition.
type partitionGateway struct {
	mu           sync.Mutex
	owning       bool                              // this process tries to own the partition
	owned        bool                              // this process owns the partition, so the results of records are known here
	ownedChanged chan struct{}                     // closed when owned changes
	moved        chan struct{}                     // closed when the partition has a new owner; nil unless somebody waits for that
	acknowledged atomic.Uint64                     // the greatest position of a record that this process sent
	floor        atomic.Uint64                     // the latest step that this process knows
	numbers      atomic.Pointer[logdriven.Numbers] // of operators in its history; nil while unknown here
	learning     atomic.Bool                       // a request for the numbers is under way
	unanswered   atomic.Bool                       // no owner has answered such a request since the partition moved

	taken   uint64                   // position up to which committed steps took records
	applied uint64                   // the same for steps that the ports show; behind taken for a moment
	waiting map[uint64]*recordResult // by nonce
	refused map[uint64]uint64        // by nonce of a refusal: the ID in the quarantine, or 0
	refusals
	shut          chan struct{}    // open while the partition takes nothing; else nil
	full          *engine.Blocked  // why it takes nothing; else nil
	since         time.Time        // when that began
	reads         map[int32]uint64 // by operator: how far readers are, not in the history yet
	readsRecorded uint64           // position of the last message that recorded it
	backlog       backlog
	letters       []Letter                // the quarantine, as far as this process knows it
	runs          context.Context         // ends when the partition, which this process owns, stops
	halt          context.CancelCauseFunc // ends runs
	reports
	gaveBack error // why this process refuses the partition; nil if it does not

	pressed chan struct{} // of capacity 1: the log needs space
	worth   atomic.Int64  // bytes of history for which a snapshot is then worth making
	saved   atomic.Int64  // bytes of the state in the last snapshot
}

func newGateway(c *core) *gateway {
	d := &gateway{core: c, partitions: make([]*partitionGateway, c.log.Partitions()), recordingReads: make(chan struct{}, 1)}
	for i := range d.partitions {
		d.partitions[i] = &partitionGateway{
			waiting: make(map[uint64]*recordResult), refused: make(map[uint64]uint64),
			reads: make(map[int32]uint64), ownedChanged: make(chan struct{}),
			reports: reports{wanted: make(chan struct{}, 1)}, pressed: make(chan struct{}, 1), backlog: backlog{reportNow: make(chan struct{}, 1)},
		}
		d.partitions[i].runs, d.partitions[i].halt = context.WithCancelCause(context.Background())
	}
	return d
}

// encode appends a record of the operator with an index, for a partition. The record has the number of the
// operator in the history. While this process does not know the number, the record has the identity of the
// operator instead, and the process asks the owner of the partition for the number.
func (g *gateway) encode(dst []byte, p int, r codec.Record) []byte {
	pg := g.partitions[p]
	numbers, op := pg.numbers.Load(), r.Op
	if numbers == nil && g.peers != nil && pg.learning.CompareAndSwap(false, true) {
		go func() {
			defer pg.learning.Store(false)
			ctx, cancel := context.WithTimeout(g.ctx, askWithin)
			defer cancel()
			_, _ = g.peers.learn(ctx, p) // else the next send asks again
		}()
	}
	if numbers != nil {
		if number, ok := numbers.Number(op); ok {
			r.Op = number
			return r.Encode(dst)
		}
	}
	location, _ := g.layout.place(p)
	sender := g.senders[location][op]
	r.Name = sender.Sent()
	return r.Encode(dst)
}

// agree returns an error if this program's records for an operator do not fit the history. If no owner answers,
// it returns nil: the record then says what types it has, and the next owner compares them.
func (g *gateway) agree(ctx context.Context, p int, op int32) error {
	pg := g.partitions[p]
	numbers := pg.numbers.Load()
	if numbers == nil && g.peers != nil && !pg.unanswered.Load() {
		asking, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		var err error
		if numbers, err = g.peers.learn(asking, p); err != nil && ctx.Err() == nil {
			pg.unanswered.Store(true) // the next sender does not wait for an answer
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

// append makes records durable, once the partition takes records and the log has space.
func (g *gateway) append(ctx context.Context, p int, records ...[]byte) (at uint64, err error) {
	if err = g.partitions[p].failure(); err == nil {
		err = g.partitions[p].room(ctx, g.facade, g.done)
	}
	if err == nil {
		at, err = g.counted(ctx, p, true, g.keep, records)
	}
	if err != nil && g.ctx.Err() != nil {
		return 0, g.refusal()
	}
	return at, err
}

// keep makes records durable, once the log has space. A position that steps had already passed before the
// records were sent is an error, not an acknowledgment: no step would take them.
func (g *gateway) keep(ctx context.Context, p int, records ...[]byte) (uint64, error) {
	taken := g.partitions[p].takenUpTo()
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		at, err := g.write(ctx, p, records...)
		if err == nil && at <= taken && len(records) > 0 {
			return 0, fmt.Errorf("%w: partition %d took records up to message %d, and new ones are at %d: the records were replaced by an older copy", ErrDamaged, p, taken, at)
		}
		if !errors.Is(err, journal.ErrFull) {
			return at, err
		}
		if g.opts.Reject && journal.PurposeOf(ctx, journal.ToSend) == journal.ToSend {
			return 0, g.full(p, err, ErrNoRoom)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return 0, g.full(p, err, context.Cause(ctx))
		case <-g.done:
			return 0, ErrStopped
		}
	}
}

// Read notes how far readers are. The history gets it a little later, all at once: after a crash, what was
// read since then comes again.
func (g *gateway) Read(_ int, op int32, partition int, number uint64) {
	pg := g.partitions[partition]
	pg.mu.Lock()
	pg.reads[op] = max(pg.reads[op], number)
	pg.mu.Unlock()
	select {
	case g.readers <- struct{}{}:
	default:
	}
}

// Given asks the owner of a partition how many elements an output has given. Owned is false if another process
// owns the partition.
func (g *gateway) Given(ctx context.Context, op int32, partition int) (n uint64, owned bool, err error) {
	if partition < 0 || partition >= len(g.partitions) {
		return 0, false, nil
	}
	err = g.between(ctx, partition, func(s *engine.Location) {
		for _, out := range s.OutputsInOrder {
			if out.Operator().Index == op {
				n, owned = out.Figures().Given, true
			}
		}
	})
	return n, owned, err
}

// recordReads writes into the history what was read.
func (g *gateway) recordReads(ctx context.Context) {
	select {
	case g.recordingReads <- struct{}{}: // a caller that waits here also waits for what another one is recording
	case <-ctx.Done():
		return
	}
	defer func() { <-g.recordingReads }()
	for p, pg := range g.partitions {
		pg.mu.Lock()
		var records [][]byte
		for op, number := range pg.reads {
			records = append(records, g.encode(nil, p, logdriven.ReadRecord(op, number)))
		}
		was := maps.Clone(pg.reads)
		clear(pg.reads)
		pg.mu.Unlock()
		if len(records) == 0 {
			continue
		}
		at, err := g.core.append(journal.For(ctx, journal.ToSave), p, records...)
		if errors.Is(err, journal.ErrFull) { // only what is read frees space
			pg.mu.Lock()
			for op, number := range was {
				pg.reads[op] = max(pg.reads[op], number)
			}
			pg.mu.Unlock()
			signal(g.readers)
			continue
		}
		if err != nil && g.ctx.Err() == nil {
			g.opts.Logger.Warn("what was read will come again after a restart", "partition", p, "error", err)
		}
		pg.mu.Lock()
		pg.readsRecorded = max(pg.readsRecorded, at)
		pg.mu.Unlock()
	}
}

// takeReads waits until the partitions that this process owns have taken what was recorded of readers, so that
// their last steps include it. It stops waiting when ctx ends.
func (g *gateway) takeReads(ctx context.Context) {
	g.recordReads(ctx)
	for _, pg := range g.partitions {
		pg.mu.Lock()
		recorded, owned := pg.readsRecorded, pg.owned
		pg.mu.Unlock()
		if !owned || recorded == 0 {
			continue
		}
		vs := pg.awaitResults([]uint64{g.nonce()})
		pg.setPosition(vs, recorded)
		select {
		case <-vs[0].done:
		case <-pg.running().Done():
		case <-ctx.Done():
		}
		pg.forgetResults(vs)
	}
}

// Take asks for an entry. The first request in the history gets it.
func (g *gateway) Take(ctx context.Context, location int, op int32, key []byte) error {
	r := logdriven.TakenRecord(op, key)
	err := g.decide(ctx, location, []codec.Record{r}, g.admit)[0]
	if errors.Is(err, engine.ErrDuplicate) {
		return engine.ErrTaken
	}
	return err
}

// admit makes records durable that free space, and are therefore not held back.
func (g *gateway) admit(ctx context.Context, p int, records ...[]byte) (at uint64, err error) {
	if err = g.partitions[p].failure(); err == nil {
		at, err = g.counted(journal.For(ctx, journal.ToSave), p, false, g.keep, records)
	}
	if err != nil && g.ctx.Err() != nil {
		return 0, g.refusal()
	}
	return at, err
}

// Want fetches an entry from the partition's owner while a caller waits for it, whenever another process is the
// owner. The wait ends if the partition stops.
func (g *gateway) Want(ctx context.Context, location int, op int32, key []byte) (_ context.Context, done func()) {
	p := g.ofKey(location, op, key)
	ctx, cancel := g.partitions[p].whileRuns(ctx)
	if g.peers == nil {
		return ctx, func() { cancel(nil) }
	}
	fetching, stop := context.WithCancel(g.ctx)
	go g.peers.fetch(fetching, p, op, key, cancel)
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// opened notes that this process runs a partition.
func (g *gateway) opened(p int, numbers *logdriven.Numbers) {
	pg := g.partitions[p]
	pg.mu.Lock()
	pg.numbers.Store(numbers)
	pg.turn(true)
	pg.answers, pg.report = true, PartitionStatus{}
	pg.mu.Unlock()
}

// closed notes that this process no longer runs a partition. Its ports forget the entries, since they no
// longer learn when one is taken; after the flow has ended they can still be read.
func (g *gateway) closed(p int) {
	pg := g.partitions[p]
	if !g.ending.Load() {
		if err := g.feedWhole(p, nil, nil); err != nil {
			g.opts.Logger.Error("entries of a partition that another process owns are still here", "partition", p, "error", err)
		}
	}
	pg.mu.Lock()
	pg.turn(false)
	pg.open()
	if pg.runs.Err() != nil {
		pg.runs, pg.halt = context.WithCancelCause(context.Background())
	}
	pg.mu.Unlock()
}

// open notes, with mu held, that nobody has to wait for the partition to take records.
func (pg *partitionGateway) open() {
	if pg.shut != nil {
		close(pg.shut)
		pg.shut, pg.full = nil, nil
	}
}

// turn notes, with mu held, whether this process owns the partition.
func (pg *partitionGateway) turn(owned bool) {
	if pg.owned != owned {
		pg.owned = owned
		close(pg.ownedChanged)
		pg.ownedChanged = make(chan struct{})
		pg.backlog.heard = time.Now() // known, if this process was the last owner
		pg.backlog.changed()
	}
}

func (pg *partitionGateway) isOwned() bool {
	owned, _ := pg.ownership()
	return owned
}

// ownership returns whether this process owns the partition, and a channel that is
// closed when that changes.
func (pg *partitionGateway) ownership() (owned bool, turned <-chan struct{}) {
	pg.mu.Lock()
	defer pg.mu.Unlock()
	return pg.owned, pg.ownedChanged
}

// whenMoved returns a channel that is closed when the partition has a new owner.
func (pg *partitionGateway) whenMoved() <-chan struct{} {
	pg.mu.Lock()
	defer pg.mu.Unlock()
	if pg.moved == nil {
		pg.moved = make(chan struct{})
	}
	return pg.moved
}

// move notes that the partition has a new owner, whose program may have operators that the previous one did
// not have.
func (pg *partitionGateway) move() {
	pg.mu.Lock()
	defer pg.mu.Unlock()
	if !pg.owned {
		pg.numbers.Store(nil)
	}
	pg.unanswered.Store(false)
	if pg.moved != nil {
		close(pg.moved)
		pg.moved = nil
	}
}

// room waits until the partition takes records.
func (pg *partitionGateway) room(ctx context.Context, facade *engine.Graph, done <-chan struct{}) error {
	for {
		pg.mu.Lock()
		shut, full := pg.shut, pg.full
		pg.mu.Unlock()
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
