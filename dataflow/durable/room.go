package durable

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A log that is full refuses sends first. What it has already is still handled, and room comes
// when every partition saves two snapshots: the second one has what is behind the first forgotten. So
// the owners save them although none is due, and one that has nothing to do makes an empty
// step between the two.

const (
	// roomAgain is how often the log is asked how full it is, and roomApart how far two of those
	// questions are apart while it refuses something.
	roomAgain = time.Second
	roomApart = 20 * time.Millisecond
	// fullAgain is how often the logger hears that the log stays full, and fullFor how long that
	// takes before it hears of it.
	fullAgain = time.Minute
	fullFor   = 5 * time.Second
	// fewBytes of history are not worth a snapshot: an empty step has less.
	fewBytes = 512
)

// A roomMaking is what an owner knows of the room that it makes.
type roomMaking struct {
	covered    int // bytes that the next snapshot has forgotten, and unknown how many the one after it has besides
	unknown    int
	reserves   int64       // bytes that the next snapshot has room for
	emptying   bool        // the step is there for a snapshot
	roomMade   bool        // before the first step: no snapshot makes more
	lastResort bool        // so the step has the room of snapshots
	departing  atomic.Bool // it waits for no room
	keeps      atomic.Bool // it keeps history that is behind two snapshots, since Options.KeepFor says so
}

// bound finds out the limit of the log. Snapshots of all partitions leave most of it free.
func (c *core) bound(ctx context.Context) error {
	c.limit = c.opts.MaxBytes
	if room, err := c.log.Room(ctx); err == nil {
		c.limit = room.Limit
	} else if ctx.Err() != nil {
		return fmt.Errorf("durable: %w", err)
	}
	if c.limit == 0 {
		return nil
	}
	// Of all partitions together, an eighth of the limit is behind two snapshots, as much is made
	// meanwhile at most, an eighth waits for steps, and a step is small beside all that.
	each := c.limit / int64(c.log.Partitions())
	atMost := func(n *int, most int64) { *n = int(min(int64(*n), max(most, 4<<10))) }
	atMost(&c.opts.SnapshotBytes, each/16)
	atMost(&c.opts.MaxLag.Bytes, each/8)
	atMost(&c.opts.StepBytes, each/64)
	c.tasks.Go(c.watchRoom)
	return nil
}

// watchRoom tells the owners of this process how pressing it is that they make room.
func (c *core) watchRoom() {
	each := time.NewTicker(roomAgain)
	defer each.Stop()
	var since, said time.Time // when the log became full, and when the logger heard of it
	for {
		refused := false
		select {
		case <-c.measured.refused:
			refused = true
		case <-each.C:
		case <-c.done:
			return
		}
		room, err := c.log.Room(c.ctx)
		if err != nil || room.Limit == 0 {
			continue
		}
		now := time.Now()
		switch {
		case !room.Tight:
			since = time.Time{}
		case since.IsZero():
			since = now
		case now.Sub(since) >= fullFor && now.Sub(said) >= fullAgain:
			said = now
			c.opts.Logger.Error("the log is full: "+c.howFull(), "kept", room.Kept, "MaxBytes", room.Limit, "state", c.stateBytes())
		}
		worth := room.Limit / 16 / int64(c.log.Partitions())
		switch {
		case refused:
			worth = fewBytes
		case room.Tight:
			worth /= 4
		}
		for _, way := range c.door.partitions {
			way.worth.Store(max(worth, fewBytes))
			signal(way.pressed)
		}
		if refused {
			select {
			case <-time.After(roomApart):
			case <-c.done:
				return
			}
		}
	}
}

// howFull says what makes room.
func (c *core) howFull() string {
	if c.opts.KeepFor == Forever {
		return "Options.KeepFor = Forever forgets nothing, so nothing is taken until Options.MaxBytes is larger"
	}
	return fmt.Sprintf("snapshots take what is left, and nothing is lost; set Options.MaxBytes to eight times what the states of all partitions have (%d bytes here), or more", c.stateBytes())
}

// stateBytes returns how much the states have that this process has saved.
func (c *core) stateBytes() (n int64) {
	for _, way := range c.door.partitions {
		n += way.saved.Load()
	}
	return n
}

// full is the error of a send that the log has no room for. Nothing was sent.
func (d *door) full(p int, err, why error) error {
	way := d.partitions[p]
	way.mu.Lock()
	defer way.mu.Unlock()
	if d.opts.KeepFor == Forever && d.limit > 0 {
		err = fmt.Errorf("%w; %s", err, d.howFull())
	}
	return &BacklogError{Partition: p, Lag: way.backlog.lag(), Err: fmt.Errorf("%w: %w", why, err)}
}

// behind returns how much of history two snapshots more have forgotten. No snapshot is being made.
func (o *owner) behind() int64 {
	n := int64(o.covered)
	if o.opts.KeepFor != Forever {
		n += int64(o.unsaved)
	}
	if worth := o.door.partitions[o.partition].worth.Load(); o.keeps.Load() && o.nearlyFull(worth) {
		n += worth // at least: nobody counts it
	}
	return n
}

// garbage returns how much is kept of the state beyond twice its size, or beyond its size if the log
// is nearly full, as of a state with outputs that were read since. A snapshot that writes all of it anew
// leaves it behind.
func (o *owner) garbage(worth int64) int64 {
	times, live := int64(2), int64(o.cutter.Live())
	if o.nearlyFull(worth) {
		times = 1
	}
	n := o.stored.bytes() - times*live - int64(o.slack())
	return max(n, 0)
}

// A reserved is the room that states have which are written anew. Owners in other processes do not
// know of it.
type reserved struct {
	mu    sync.Mutex
	bytes int64
}

// reserve takes room for the whole state in the next snapshot, if so much remains besides. It is
// released when the snapshot has been made.
func (o *owner) reserve(ctx context.Context, remains int64) bool {
	o.reserved.mu.Lock()
	defer o.reserved.mu.Unlock()
	room, err := o.log.Room(ctx)
	live := int64(o.cutter.Live())
	if err != nil || o.reserves > 0 || o.reserved.bytes+live > room.Free-remains {
		return false
	}
	o.reserved.bytes += live
	o.reserves += live
	return true
}

func (o *owner) release(bytes int64) {
	o.reserved.mu.Lock()
	defer o.reserved.mu.Unlock()
	o.reserved.bytes -= bytes
}

// cleaning returns how much of what has not changed a snapshot may write again. It leaves room for
// another snapshot, which has what was behind this one forgotten.
func (o *owner) cleaning(ctx context.Context) int {
	if o.limit == 0 {
		return math.MaxInt
	}
	room, err := o.log.Room(ctx)
	if err != nil {
		return 0
	}
	o.reserved.mu.Lock()
	defer o.reserved.mu.Unlock()
	return int(min(max(room.Free-room.Limit/16-o.reserved.bytes, 0), math.MaxInt))
}

// covers notes, when a snapshot begins, what the next one has forgotten.
func (o *owner) covers() {
	if o.before.err == nil {
		o.covered = 0
	}
	o.covered += o.unknown
	if o.opts.KeepFor != Forever {
		o.covered += o.unsaved
	}
	o.unknown = 0
}

// slack is how much of the log the state of a partition may have besides twice its size.
func (c *core) slack() int {
	return int(min(max(c.limit/16/int64(c.log.Partitions()), 1<<10), math.MaxInt32))
}

// overdue reports whether so much came since the snapshot under way was begun that no more records
// are taken until it is durable, so that they leave room for it.
func (o *owner) overdue() bool {
	if o.limit == 0 || o.unsaved/2 < o.opts.SnapshotBytes {
		return false
	}
	select {
	case <-o.before.done:
		return false
	default:
		return true
	}
}

// makeRoom begins a snapshot if there is enough to forget.
func (o *owner) makeRoom(ctx context.Context) error {
	select {
	case <-o.before.done:
	default:
		return nil // the one before is still being made durable
	}
	worth := o.door.partitions[o.partition].worth.Load()
	if o.cut != nil {
		return nil
	}
	garbage := o.garbage(worth)
	if garbage > 0 && o.behind()+garbage >= worth && !o.reserve(ctx, o.limit/16) { // which leaves room for the snapshot after it
		garbage = 0
	}
	if o.behind()+garbage < worth {
		return nil
	}
	if errors.Is(o.before.err, journal.ErrOvertaken) {
		return o.before.err
	}
	if err := o.goOnFrom(ctx); err != nil {
		return err
	}
	if garbage > 0 {
		o.cutter.Again()
		o.unknown += int(garbage)
	}
	o.notMade(o.beginCut(o.ctx))
	return nil
}

// goOnFrom makes an empty step if the last snapshot is of the last step: the next one has to be of
// a later one.
func (o *owner) goOnFrom(ctx context.Context) error {
	if o.stored.at != o.fence {
		return nil
	}
	o.emptying = true
	defer func() { o.emptying = false }()
	return o.step(ctx, nil, nil)
}

// roomFirst makes room before a partition that was restored goes on, if the log is full. An
// owner whose step was refused cannot save its state any longer, which the step has changed.
func (o *owner) roomFirst(ctx context.Context) error {
	if o.limit == 0 || o.fence == 0 {
		return nil
	}
	room, err := o.log.Room(ctx)
	if err != nil || !room.Tight {
		return nil // and a step that is refused asks again
	}
	for again := false; ; {
		if o.behind() < fewBytes {
			if room, err = o.log.Room(ctx); again || err != nil || !room.Tight || !o.reserve(ctx, 0) {
				o.roomMade = true
				return nil
			}
			// All of the state written anew leaves behind what it was before, and pieces that owners
			// which have crashed left and no snapshot names.
			again = true
			o.cutter.Again()
			o.unsaved += fewBytes
		}
		if err := o.goOnFrom(ctx); err != nil {
			return err
		}
		switch err := o.keepNow(ctx); {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, journal.ErrOvertaken):
			return err
		case err != nil:
			o.opts.Logger.Error("a snapshot that makes room was not kept", "partition", o.partition, "error", err)
			return nil
		}
	}
}

// errStepFull has a partition restored whose step the log has no room for, to make room first.
var errStepFull = errors.New("durable: the log has no room for a step")

// stepRefused goes on with the snapshot under way while a step waits for room. It returns an
// error if only another snapshot makes room.
func (o *owner) stepRefused(ctx context.Context, because error) error {
	for o.cut != nil && o.cut.waiting() <= mostWaiting {
		o.goOn(aSlice)
	}
	if o.limit == 0 || o.fence == 0 || o.emptying || o.cut != nil {
		return nil
	}
	select {
	case <-o.before.done:
	default:
		return nil
	}
	room, err := o.log.Room(ctx)
	if err != nil || !room.Tight {
		return nil
	}
	if o.roomMade { // and there is none: the state is too large for the limit, but this step may have it forget something
		o.lastResort = true
		return nil
	}
	return fmt.Errorf("%w: %w", errStepFull, because)
}

// commitContext is that of a commit. The step that a snapshot needs has all of the room there is, and
// one that only itself can make room has that of snapshots: it may say that outputs were read.
func (o *owner) commitContext() context.Context {
	switch {
	case o.emptying:
		return journal.For(o.ctx, journal.ToEnd)
	case o.lastResort:
		return journal.For(o.ctx, journal.ToSave)
	}
	return o.ctx
}

// crowded returns [journal.ErrFull] if a last snapshot has to write the whole state, since the one before
// it was broken off, and that would take the room of what makes room.
func (o *owner) crowded(ctx context.Context) error {
	if live := o.cutter.Live(); o.before.err != nil && live > o.cleaning(ctx) {
		return fmt.Errorf("%w for a state of %d bytes", journal.ErrFull, live)
	}
	return nil
}

// retry calls do until the log has room for it, and says what waits for long. An owner that
// leaves does not wait.
func (o *owner) retry(ctx context.Context, what string, do func() error) error {
	waits := o.waiter(what, o.partition)
	defer waits.end()
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		err := do()
		if !errors.Is(err, journal.ErrFull) || o.departing.Load() {
			return err
		}
		if wait == longestWait {
			waits.failed("waits for room, and nothing is lost: make Options.MaxBytes at least eight times the states of all partitions, or free the disk", err,
				"state", o.stored.bytes(), "MaxBytes", o.limit)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// bytes returns how large the runs are.
func (k *stored) bytes() (n int64) {
	for i := range k.runs {
		n += int64(k.runs[i].bytes)
	}
	return n
}
