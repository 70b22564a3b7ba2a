package durable

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A full log refuses sends first. The records that it has are still handled. Space becomes free when every
// partition saves two snapshots, since the second one deletes what is before the first. So the owners save them
// although none is due, and an owner with nothing to do makes an empty step between the two.

const (
	// roomEvery is how often the log is asked how full it is, and roomRetry the pause between two such
	// questions while it refuses something.
	roomEvery = time.Second
	roomRetry = 20 * time.Millisecond
	// fullAgain is how often a log that stays full is logged, and fullFor how long it must be full before it is
	// logged.
	fullAgain = time.Minute
	fullFor   = 5 * time.Second
	// fewBytes is the size of a history that is not worth a snapshot: an empty step is smaller.
	fewBytes = 512
)

// A spaceState is an owner's knowledge of the space that it can free.
type spaceState struct {
	covered    int // bytes that the next snapshot deletes; unknown: bytes that the one after it deletes besides
	unknown    int
	reserves   int64       // bytes reserved for the next snapshot
	underrated int64       // how much larger the state was than its estimate when it was last measured
	emptying   bool        // the step is made only for a snapshot
	roomMade   bool        // space was made before the first step: no snapshot frees more
	lastResort bool        // so the step may use the space of snapshots
	departing  atomic.Bool // the owner no longer waits for space
	keeps      atomic.Bool // Options.KeepFor keeps history from before the last two snapshots
}

// bound determines the limit of the log, and lowers options so that snapshots of all partitions leave most of
// it free.
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
	// Over all partitions, an eighth of the limit is before two snapshots, at most as much is added meanwhile,
	// and an eighth waits for steps. A step is small beside all that.
	each := c.limit / int64(c.log.Partitions())
	atMost := func(n *int, most int64) { *n = int(min(int64(*n), max(most, 4<<10))) }
	atMost(&c.opts.SnapshotBytes, each/16)
	atMost(&c.opts.MaxLag.Bytes, each/8)
	atMost(&c.opts.StepBytes, each/64)
	c.tasks.Go(c.watchRoom)
	return nil
}

// watchRoom tells the owners of this process how urgently they must free space.
func (c *core) watchRoom() {
	each := time.NewTicker(roomEvery)
	defer each.Stop()
	var since, said time.Time // when the log became full, and when that was last logged
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
		for _, pg := range c.gateway.partitions {
			pg.worth.Store(max(worth, fewBytes))
			signal(pg.pressed)
		}
		if refused {
			select {
			case <-time.After(roomRetry):
			case <-c.done:
				return
			}
		}
	}
}

// howFull says what frees space.
func (c *core) howFull() string {
	if c.opts.KeepFor == Forever {
		return "Options.KeepFor = Forever forgets nothing, so nothing is taken until Options.MaxBytes is larger"
	}
	return fmt.Sprintf("snapshots take what is left, and nothing is lost; set Options.MaxBytes to eight times what the states of all partitions have (%d bytes here), or more", c.stateBytes())
}

// stateBytes returns the size of the states that this process has saved.
func (c *core) stateBytes() (n int64) {
	for _, pg := range c.gateway.partitions {
		n += pg.saved.Load()
	}
	return n
}

// full returns the error of a send for which the log has no space. Nothing was sent.
func (g *gateway) full(p int, err, why error) error {
	pg := g.partitions[p]
	pg.mu.Lock()
	defer pg.mu.Unlock()
	if g.opts.KeepFor == Forever && g.limit > 0 {
		err = fmt.Errorf("%w; %s", err, g.howFull())
	}
	return &BacklogError{Partition: p, Lag: pg.backlog.lag(), Err: fmt.Errorf("%w: %w", why, err)}
}

// behind returns how many bytes of history two more snapshots delete. It is called while no snapshot is being
// made.
func (o *owner) behind() int64 {
	n := int64(o.covered)
	if o.opts.KeepFor != Forever {
		n += int64(o.unsaved)
	}
	if worth := o.gateway.partitions[o.partition].worth.Load(); o.keeps.Load() && o.nearlyFull(worth) {
		n += worth // at least: nobody counts it
	}
	return n
}

// garbage returns how much more of the state is stored than twice its size, or than its size if the log is
// nearly full. An example is a state with outputs that were read since. A snapshot that rewrites the whole
// state removes it.
func (o *owner) garbage(worth int64) int64 {
	times, live := int64(2), int64(o.cutter.Live())
	if o.nearlyFull(worth) {
		times = 1
	}
	n := o.stored.bytes() - times*live - int64(o.slack())
	return max(n, 0)
}

// covers accounts, when a snapshot begins, for what the next one will delete.
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

// slack is how much of the log the state of a partition may take beyond twice its size.
func (c *core) slack() int {
	return int(min(max(c.limit/16/int64(c.log.Partitions()), 1<<10), math.MaxInt32))
}

// overdue reports whether so much came since the snapshot in progress began that no more records are taken
// until it is durable, so that they leave space for it.
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

// makeRoom begins a snapshot if there is enough to delete.
func (o *owner) makeRoom(ctx context.Context) error {
	select {
	case <-o.before.done:
	default:
		return nil // the previous snapshot is not durable yet
	}
	worth := o.gateway.partitions[o.partition].worth.Load()
	if o.cut != nil {
		return nil
	}
	garbage := o.garbage(worth)
	if garbage > 0 && o.behind()+garbage >= worth && !o.reserve(ctx, o.limit/16) { // leaves space for the snapshot after it
		garbage = 0
	}
	if o.behind()+garbage < worth {
		return nil
	}
	if errors.Is(o.before.err, journal.ErrOvertaken) {
		return o.before.err
	}
	if err := o.ensureStepSinceSnapshot(ctx); err != nil {
		return err
	}
	if garbage > 0 {
		o.rewrite()
	}
	o.abortCut(o.beginCut(o.ctx))
	return nil
}

// ensureStepSinceSnapshot makes an empty step if the last snapshot is of the last step: the next snapshot must be of a later
// one.
func (o *owner) ensureStepSinceSnapshot(ctx context.Context) error {
	if o.stored.at != o.fence {
		return nil
	}
	o.emptying = true
	defer func() { o.emptying = false }()
	return o.step(ctx, nil, nil)
}

// roomFirst frees space before a restored partition goes on, if the log is full. It must be done first: an
// owner whose step was refused can no longer save its state, which the step has changed.
func (o *owner) roomFirst(ctx context.Context) error {
	if o.limit == 0 || o.fence == 0 {
		return nil
	}
	room, err := o.log.Room(ctx)
	if err != nil || !room.Tight {
		return nil // a step that is refused asks again
	}
	for again := false; ; {
		if o.behind() < fewBytes {
			if room, err = o.log.Room(ctx); again || err != nil || !room.Tight || !o.reserve(ctx, 0) {
				o.roomMade = true
				return nil
			}
			// Rewriting the whole state frees its old pieces, and pieces of crashed owners that no snapshot
			// names.
			again = true
			o.rewrite()
		}
		if err := o.ensureStepSinceSnapshot(ctx); err != nil {
			return err
		}
		switch err := o.snapshotNow(ctx); {
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

// errStepFull restores a partition whose step the log has no space for, so that space is freed first.
var errStepFull = errors.New("durable: the log has no room for a step")

// stepRefused continues the snapshot in progress while a step waits for space. It returns an error if only
// another snapshot can free space.
func (o *owner) stepRefused(ctx context.Context, because error) error {
	for o.cut != nil && o.cut.waiting() <= mostWaiting {
		o.continueCut(maxCutPause)
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
	if o.roomMade { // nothing more can be freed: the state is too large for the limit, but this step may shrink it
		o.lastResort = true
		return nil
	}
	return fmt.Errorf("%w: %w", errStepFull, because)
}

// commitContext returns the context of a commit. A step that a snapshot needs may use all space there is. A
// step that alone can free space, such as one that says that outputs were read, may use the space of snapshots.
func (o *owner) commitContext() context.Context {
	switch {
	case o.emptying:
		return journal.For(o.ctx, journal.ToEnd)
	case o.lastResort:
		return journal.For(o.ctx, journal.ToSave)
	}
	return o.ctx
}

// crowded returns [journal.ErrFull] if a last snapshot would have to write the whole state, since the previous
// one was broken off, and would take the space that is needed to free space.
func (o *owner) crowded(ctx context.Context) error {
	if live := o.cutter.Live(); o.before.err != nil && live > o.cleaning(ctx) {
		return fmt.Errorf("%w for a state of %d bytes", journal.ErrFull, live)
	}
	return nil
}

// retry calls do until the log has space for it, and logs long waits. An owner that leaves does not wait.
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
