package durable

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// An owner runs one partition: it restores the state, takes records, makes steps, commits each, and shows the
// outputs of a step when it is committed. It belongs to one goroutine.
//
// Another process may believe at the same time that it owns the partition. The journal lets only one of them
// commit; the one that is refused discards everything and restores.
type owner struct {
	*core
	partition int
	of        origin
	commits   bool // its steps are committed, so it may read ahead of what is durable

	graph    *engine.Graph
	executor *logdriven.Executor
	fence    uint64

	recorder engine.StepRecorder // receives the steps that are replayed; or nil

	last snapshot // everything about the last step except the state
	program
	clock  func() int64
	sender *sender

	trial  *trial    // nil unless a function of the program failed
	adopts uint64    // the first step whose recorded outputs are kept, whatever it gives now; 0 if there is none
	taking []message // the messages of the step being made; nil between steps

	unsaved         int       // bytes of history since the last snapshot
	savedAt         time.Time // of the last snapshot
	saving, sending sync.WaitGroup
	cutter          *logdriven.Cutter
	stored          stored
	resuming        callResumption
	spaceState
	before  *cut // the last one that was begun
	cut     *cut // the one being written, or nil
	digests digestSchedule
}

// How long to wait before retrying what a full log refused.
const (
	firstWait   = 10 * time.Millisecond
	longestWait = time.Second
)

// own runs a partition until ctx ends, and then returns nil. It returns an error if the flow cannot go on. It
// calls opened whenever the partition is restored.
func (c *core) own(ctx context.Context, partition int, opened func()) (err error) {
	defer func() {
		var damaged *DamagedError
		if errors.As(err, &damaged) {
			damaged.Token = tokenOf(ctx, c.log, &c.opts, partition)
		}
	}()
	c.gateway.partitions[partition].own(true)
	defer c.gateway.partitions[partition].own(false)
	var t *trial
	adopts := uint64(0)
	for purged := 0; ; {
		o := &owner{core: c, partition: partition, commits: true, of: c.originOf(partition), trial: t, adopts: adopts, before: &cut{done: closed}, spaceState: spaceState{covered: fewBytes, unknown: fewBytes}}
		err := o.runAlone(ctx, func() {
			purged = 0
			opened()
		})
		o.abortCut(errors.New("the partition was left"))
		o.departing.Store(true) // a snapshot that the log has no space for is given up
		o.saving.Wait()
		o.sending.Wait()
		if o.graph != nil {
			o.graph.Fail(ErrStopped) // ends asynchronous calls
		}
		if o.executor != nil {
			o.report(false)
		}
		refused := errors.Is(err, journal.ErrFenced) || errors.Is(err, journal.ErrUnknown) || errors.Is(err, journal.ErrOvertaken) || errors.Is(err, errStepFull)
		if refused {
			c.metrics.restores.Add(1)
		}
		var older *olderStepsError
		var failed *dataflow.StepError
		var diverged *DivergedError
		if t = o.trial; t == nil && !c.opts.EndOnFailure {
			t = o.newTrial(err)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case t != nil && !errors.Is(err, ErrDiverged) && errors.As(err, &failed) && t.failed(o, failed):
			c.opts.Logger.Warn("restoring a partition to find the record or the timer that its program fails on", "partition", partition, "error", err)
		case errors.As(err, &diverged) && c.opts.Divergence == KeepRecorded && diverged.Err == nil && adopts == 0:
			c.opts.Logger.Warn("steps give something else than is recorded, which stands", "partition", partition, "from", diverged.Step)
			adopts = diverged.Step
		case errors.As(err, &older) && c.shared != nil && purged < restoresBehind: // another owner has committed meanwhile
			c.opts.Logger.Warn("restoring a partition", "partition", partition, "error", err)
			purged++
			pauseBehind(ctx)
		case errors.As(err, &older):
			return o.damaged("%v", err)
		case refused:
			c.opts.Logger.Warn("restoring a partition", "partition", partition, "error", err)
		case errors.Is(err, journal.ErrPurged) && purged < restoresBehind: // a snapshot was made meanwhile
			c.opts.Logger.Warn("restoring a partition", "partition", partition, "error", err)
			purged++
			pauseBehind(ctx)
		case errors.Is(err, journal.ErrPurged): // nobody purges what no snapshot includes
			return o.damaged("%v", err)
		default:
			if errors.As(err, new(*DamagedError)) {
				return err // it names the partition already
			}
			return fmt.Errorf("durable: partition %d: %w", partition, err)
		}
	}
}

// runAlone calls run in a goroutine of its own: a function of the flow may end the goroutine that calls it,
// with runtime.Goexit, and the goroutine that reports this must survive.
func (o *owner) runAlone(ctx context.Context, opened func()) (err error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { o.release(o.reserves) }()
		returned := false
		defer func() {
			if !returned && o.graph != nil {
				err = o.graph.Err()
			}
			if !returned && err == nil {
				err = errGoexit
			}
		}()
		err = o.run(ctx, opened)
		returned = true
	}()
	<-ended
	return err
}

// errGoexit says that a function of the program that is not given to an operator ended its goroutine.
var errGoexit = errors.New("the build function or the codec ended its goroutine with runtime.Goexit, as FailNow of a test does")

func (o *owner) run(ctx context.Context, opened func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reader, err := o.restore(ctx)
	if err != nil {
		return err
	}
	defer reader.close()
	o.executor.Location().MostSent = mostSent(o.log) // steps that are repeated gave what they gave
	if err := o.holdTimer(ctx); err != nil {
		return err
	}
	if err := o.show(); err != nil {
		return err
	}
	if err := o.resumeAfter(ctx, reader); err != nil {
		return err
	}
	o.called()
	o.gateway.opened(o.partition, o.program.numbers)
	o.gateway.partitions[o.partition].saved.Store(o.stored.bytes())
	opened()

	o.sender = newSender(o.core, o.partition)
	o.sender.add(o.executor.Moved())
	if err := o.roomFirst(ctx); err != nil {
		return err
	}
	if err := o.try(ctx, reader); err != nil {
		return err
	}
	ahead := newAhead(o.opts.MaxLag, o.opts.StepBytes)
	failed := make(chan error, 2)
	o.sending.Go(func() {
		if err := o.sender.run(ctx); err != nil {
			failed <- err
		}
	})
	go func() {
		for {
			ms, err := reader.next(ctx)
			if err != nil {
				failed <- o.unreadable(err)
				return
			}
			var size Lag
			for i := range ms {
				size = size.plus(lagOf(ms[i].records))
			}
			o.gateway.partitions[o.partition].ahead(ms[len(ms)-1].position, size, o.opts.MaxLag)
			if !ahead.put(ctx, ms, size) {
				return
			}
		}
	}()
	if o.shared != nil {
		o.sending.Go(func() { o.announceBacklog(ctx) })
	}
	return o.loop(ctx, ahead, failed)
}

func (o *owner) loop(ctx context.Context, ahead *ahead, failed <-chan error) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	age := time.NewTicker(max(o.opts.SnapshotAge/4, time.Millisecond))
	defer age.Stop()
	for {
		if at, ok := o.executor.Deadline(); ok {
			timer.Reset(max(time.Duration(at-o.clock()), 0))
		} else {
			timer.Reset(time.Hour)
		}
		var taken []message
		ready, saved := ahead.ready, (chan struct{})(nil)
		if o.overdue() {
			ready, saved = nil, o.before.done
		}
		select {
		case <-ctx.Done():
			return o.saveLastSnapshot()
		case err := <-failed:
			if ctx.Err() != nil { // the end of ctx ends the reader as well
				return o.saveLastSnapshot()
			}
			return err
		case <-o.graph.Done(): // an asynchronous call failed
			return o.graph.Err()
		case <-ready:
			if taken = ahead.take(); len(taken) == 0 {
				continue
			}
		case <-timer.C:
			if at, ok := o.executor.Deadline(); !ok || at > o.clock() {
				continue
			}
			taken = ahead.besides(ready)
		case <-o.gateway.partitions[o.partition].wanted:
			o.report(true)
			continue
		case <-o.gateway.partitions[o.partition].pressed:
			if err := o.makeRoom(ctx); err != nil {
				return err
			}
			continue
		case <-saved:
			if err := o.cutIfDue(); err != nil {
				return err
			}
			continue
		case <-age.C:
			if err := o.cutIfDue(); err != nil {
				return err
			}
			continue
		case <-o.more():
			if len(ready) == 0 {
				o.continueCut(maxCutPause)
			}
			continue
		}
		began := time.Now()
		if err := o.step(ctx, taken, nil); err != nil {
			return err
		}
		if err := o.cutIfDue(); err != nil {
			return err
		}
		if o.cut != nil {
			o.continueCut(min(maxCutPause, time.Since(began)/10))
		}
	}
}

// step makes a step of messages, without the records to skip, and commits it.
func (o *owner) step(ctx context.Context, taken []message, skip []logdriven.Skip) error {
	if len(taken) > 0 && o.executor.Forgets(o.clock()) { // before a record is refused because its key exists
		if err := o.step(ctx, nil, nil); err != nil {
			return err
		}
	}
	s := o.next(o.clock())
	n := 0
	for i := range taken {
		n += len(taken[i].records)
	}
	records := make([][]byte, 0, n)
	for i := range taken {
		m := &taken[i]
		if m.floor > o.fence {
			return &olderStepsError{record: m.position, floor: m.floor, last: o.fence}
		}
		records = append(records, m.records...)
		s.size = s.size.plus(lagOf(m.records))
		s.take(m)
	}
	var err error
	o.taking = taken // must be set even if a function ends the goroutine
	noted := o.noteIfDue()
	if s.Emission, err = o.executor.Step(s.now, records, skip); err != nil {
		return err
	}
	o.taking = nil
	if noted {
		if s.changes, err = o.digestChanges(); err != nil {
			return err
		}
	}
	if err := o.commit(ctx, &s); err != nil {
		return err
	}
	o.unsaved += s.size.Bytes
	o.metrics.records.Add(uint64(len(records)))
	if o.executor.QuarantineChanged() {
		o.quarantined(&s)
	}
	// The ports show a step before anything that follows from it, since an asynchronous call or another
	// location may look at them.
	if err := o.feed(o.partition, o.program.numbers, &s, o.executor.Stopped()); err != nil {
		return err
	}
	o.executor.Release()
	o.resume()
	o.called()
	o.sender.add(o.executor.Moved())
	return nil
}

// commit makes a step durable. While the log is full it retries: nothing comes out and nothing is lost
// meanwhile.
func (o *owner) commit(ctx context.Context, s *step) error {
	o.lastResort = false
	s.last = max(s.last, s.taken)
	data := s.encode(o.of)
	waits := o.waiter("a step", o.partition)
	defer waits.end()
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		fence, err := o.log.Commit(o.commitContext(), o.partition, o.fence, data) // Stop waits for it
		if err == nil {
			o.fence = fence
			o.roomMade = o.roomMade && o.emptying
			o.gateway.partitions[o.partition].floor.Store(fence)
			break
		}
		if !errors.Is(err, journal.ErrFull) {
			return err
		}
		waits.failed("waits for room", err)
		if err := o.stepRefused(ctx, err); err != nil {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
	o.metrics.steps.Add(1)
	o.unsaved += len(data)
	o.advance(s, data)
	o.last.version = s.version
	o.witness()
	return nil
}

// show gives the ports of this process the content of the restored outputs.
func (o *owner) show() error {
	o.gateway.partitions[o.partition].remember(&o.last.refusals)
	o.showLetters()
	s := step{place: o.last.place}
	o.gateway.partitions[o.partition].committed(&s)
	if err := o.feedFrom(o.partition, o.executor); err != nil {
		return err
	}
	o.gateway.partitions[o.partition].restored(s.taken)
	o.took(o.partition, &s, o.executor.Stopped())
	return nil
}
