package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// restore brings the partition to its last step, and returns a reader of the records after it.
func (o *owner) restore(ctx context.Context) (*source, error) {
	began := time.Now()
	seen, err := o.sighted(ctx)
	if err != nil {
		return nil, err
	}
	h, err := o.history(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.compare(ctx, seen, h); err != nil {
		return nil, err
	}
	source, err := o.follow(ctx, h)
	if err != nil {
		return nil, err
	}
	if err := o.checkLast(ctx, h.Fence, source); err != nil {
		source.close()
		return nil, err
	}
	o.savedAt = time.Now()
	if o.adopts != 0 {
		o.last.diverged, o.savedAt = o.adopts, time.Time{} // make a snapshot at once, so that the steps are not replayed again
	}
	o.startClock()
	o.witness()
	if err := o.takeOver(ctx, h); err != nil {
		source.close()
		return nil, err
	}
	o.metrics.restored(time.Since(began))
	return source, nil
}

// takeOver writes into the history that this program continues it, unless it says so already. It first waits
// until all partitions can continue.
func (o *owner) takeOver(ctx context.Context, h *journal.History) error {
	changed := h.Fence > 0 && o.program.changed
	if changed {
		if err := o.nothingWaits(ctx, o.program.made); err != nil {
			return err
		}
	}
	if err := o.agreed.fits(ctx, o.partition); err != nil {
		return err
	}
	switch {
	case h.Fence == 0:
		return o.begin(ctx)
	case changed:
		return o.beginChanged(ctx)
	}
	return nil
}

// begin makes the first step of a history.
func (o *owner) begin(ctx context.Context) (err error) {
	s := o.next(1)
	s.begin, s.clock, s.shape = true, o.last.clock, o.program.numbers.Shape().String()
	if s.Emission, err = o.executor.Begin(s.clock); err != nil {
		return err
	}
	return o.commit(ctx, &s)
}

// follow brings a new flow to the end of a history.
func (o *owner) follow(ctx context.Context, h *journal.History) (*source, error) {
	o.fence, o.stored.at = h.Fence, h.At
	if err := o.loadLatest(ctx, h); err != nil {
		return nil, err
	}
	read := o.log.Read
	if o.commits {
		read = func(ctx context.Context, p int, after uint64) (journal.Reader, error) {
			return journal.ReadAhead(ctx, o.log, p, after)
		}
	}
	reader, err := read(ctx, o.partition, max(o.last.taken, 1)-1)
	if err != nil {
		return nil, err
	}
	if o.cutter == nil {
		o.cutter = o.executor.Cutter()
	}
	source := &source{reader: reader, of: o.of, max: o.opts.StepBytes}
	if err = o.rejoin(ctx, source); err == nil {
		err = o.replay(ctx, h, source)
	}
	if err != nil {
		source.close()
		return nil, err
	}
	if o.limit > 0 {
		o.cutter.Slack(o.slack())
	}
	return source, nil
}

// rejoin compares the last message that a snapshot includes, which is never purged, with the message that is
// now at its position. They differ if the records are an older copy to which others were added.
func (o *owner) rejoin(ctx context.Context, from *source) error {
	if o.last.taken == 0 {
		return nil
	}
	ms, err := from.until(ctx, o.last.taken-1, o.last.taken)
	if err != nil {
		return o.unreadable(err)
	}
	if ms[0].digest != o.last.digest {
		return o.damaged("message %d is not the one that was taken there: the records are an older copy to which others were added", o.last.taken)
	}
	return nil
}

// checkLast reads the last message that no step has taken. It says which step was known when it was sent, and
// that step must exist.
//
// The end of the records that the history reports does not mean that this partition has a record there: it may
// be the end over all partitions.
func (o *owner) checkLast(ctx context.Context, fence uint64, from *source) error {
	last, err := from.reader.Last(ctx)
	if err != nil || last <= o.last.taken {
		return err
	}
	reader, err := o.log.Read(ctx, o.partition, last-1)
	if err != nil {
		return err
	}
	defer reader.Close()
	ms, err := (&source{reader: reader, of: o.of, max: 1}).next(ctx)
	if err != nil {
		return o.unreadable(err)
	}
	if m := &ms[0]; m.floor > fence {
		return &olderStepsError{record: m.position, floor: m.floor, last: fence}
	}
	return nil
}

// unreadable turns an error that says that records are damaged into a [*DamagedError] of the partition.
func (o *owner) unreadable(err error) error {
	if errors.As(err, new(unreadableError)) {
		return o.damaged("%v", err)
	}
	return err
}

// An olderStepsError says that a record knows of a later step than there is: another owner has committed
// meanwhile, or the steps are an older copy.
type olderStepsError struct {
	record, floor, last uint64
	why                 string // in words, if the witness and not a record knows it
}

func (e *olderStepsError) Error() string {
	if e.why != "" {
		return e.why
	}
	return fmt.Sprintf("message %d was sent when step %d was committed, and the last step is %d: the steps are an older copy, or were lost at the end", e.record, e.floor, e.last)
}

// How often, and after which pause, an inconsistent history is read again: another owner may have made a
// snapshot meanwhile, or a server may have just become leader.
const (
	restoresBehind = 10
	readAgain      = 100 * time.Millisecond
)

func pauseBehind(ctx context.Context) {
	select {
	case <-time.After(readAgain):
	case <-ctx.Done():
	}
}

// history returns the stored history of the partition. It returns an error if the records end before what the
// steps knew of: they are an older copy, or were lost. New records would be acknowledged at positions that
// count as taken, and would have no effect.
func (o *owner) history(ctx context.Context) (*journal.History, error) {
	for try := 1; ; try++ {
		h, err := o.log.Restore(ctx, o.partition)
		if err != nil {
			return nil, err
		}
		known, err := o.knownBy(h)
		switch {
		case err != nil:
			return nil, o.damaged("%v", err)
		case known <= h.End:
			return h, nil
		case try == restoresBehind || o.shared == nil:
			return nil, o.damaged("step %d knew of records up to message %d, and they end at %d: they are an older copy, or were lost at the end", h.Fence, known, h.End)
		}
		if pauseBehind(ctx); ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// knownBy returns the position up to which the last step of a history knew that records were acknowledged.
func (o *owner) knownBy(h *journal.History) (uint64, error) {
	if n := len(h.Steps); n > 0 {
		s, err := decodeStep(o.of, h.Steps[n-1].Data)
		return s.last, err
	}
	if h.Snapshot == nil {
		return 0, nil
	}
	s, err := newest(o.of, h.Snapshot)
	return s.last, err
}

// damaged returns the error for a partition whose history cannot be restored.
func (o *owner) damaged(format string, args ...any) error {
	return &DamagedError{History: o.opts.Name, Log: o.opts.Log.String(), Partition: o.partition, Damage: fmt.Sprintf(format, args...)}
}

// replay replays the steps that were committed since the snapshot.
func (o *owner) replay(ctx context.Context, h *journal.History, from *source) error {
	again := o.replayFrom(h.At, from)
	for _, committed := range h.Steps {
		if err := again.step(ctx, committed); err != nil {
			return err
		}
		o.unsaved += len(committed.Data)
		o.metrics.replayed.Add(1)
	}
	return nil
}

// A stepReplay replays steps one by one.
type stepReplay struct {
	o      *owner
	from   *source
	fence  uint64                  // of the last step
	counts func(number int32) bool // see program.counts
}

// replayFrom returns a stepReplay that begins after the step with a fence.
func (o *owner) replayFrom(fence uint64, from *source) *stepReplay {
	o.program.same = o.program.isMade()
	return &stepReplay{o, from, fence, o.program.counts()}
}

// step replays a step and compares its outputs with what was committed.
func (r *stepReplay) step(ctx context.Context, committed journal.Step) error {
	o := r.o
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	was, err := decodeStep(o.of, committed.Data)
	if err != nil {
		return o.damaged("step %d: %v", committed.Fence, err)
	}
	if was.fence != r.fence || was.link != o.last.link {
		return o.damaged("step %d does not follow step %d: steps are missing between them, or one was replaced", committed.Fence, r.fence)
	}
	r.fence = committed.Fence
	if was.newVersion {
		o.last.version = was.version
	}
	var e logdriven.Emission
	digests := o.comparesDigest(&was, r.fence)
	if digests {
		o.cutter.Note()
	}
	switch {
	case was.begin:
		o.last.clock = was.clock
		e, err = o.executor.Begin(was.clock)
	case was.changed:
		if o.program.made, err = parseShape(was.shape); err != nil {
			return o.damaged("step %d: %v", committed.Fence, err)
		}
		o.program.same, o.program.converts = o.program.isMade(), false
		r.counts = o.program.counts()
		o.executor.Use(o.program.numbers, nil)
	default:
		var records [][]byte
		if records, err = o.recordsOf(ctx, r.from, committed.Fence, was.inputPosition); err != nil {
			return err
		}
		if o.adopts != 0 && committed.Fence >= o.adopts {
			e, err = o.executor.Adopt(was.now, records, was.Skipped, was.Outputs)
		} else {
			e, err = o.executor.Step(was.now, records, was.Skipped)
		}
	}
	if err == nil && !sameSkips(e.Skipped, was.Skipped) {
		err = fmt.Errorf("%d records were quarantined when it was committed, and %d now", len(was.Skipped), len(e.Skipped))
	}
	if err != nil || !logdriven.SameOutputs(e.Outputs, was.Outputs, r.counts) {
		return &DivergedError{
			Partition: o.partition, Step: committed.Fence, Was: was.Outputs, Is: e.Outputs, Err: err,
			MadeBy: o.last.version, AgainBy: o.opts.Version,
		}
	}
	if digests {
		if err := o.compareDigest(&was, r.fence); err != nil {
			return err
		}
	}
	o.advance(&was, committed.Data)
	return nil
}

// advance moves past a durable step.
func (o *owner) advance(s *step, data []byte) {
	o.last.place = s.place
	o.last.link = after(data)
	o.last.refusals.add(s)
}

// sameSkips reports whether the same records of a step were quarantined. It ignores the reasons, which contain
// positions in the program's source and may change.
func sameSkips(a, b []logdriven.Skip) bool {
	return slices.EqualFunc(a, b, func(a, b logdriven.Skip) bool { return a.Index == b.Index })
}

// recordsOf returns the records that a step took.
func (o *owner) recordsOf(ctx context.Context, from *source, fence uint64, want inputPosition) (records [][]byte, err error) {
	ms, err := from.until(ctx, o.last.taken, want.taken)
	if err != nil {
		return nil, o.unreadable(fmt.Errorf("step %d: %w", fence, err))
	}
	is := o.last.inputPosition
	for i := range ms {
		is.take(&ms[i])
		records = append(records, ms[i].records...)
	}
	if is != want {
		return nil, o.damaged("step %d took other records than there are between message %d and %d: some were lost or replaced", fence, o.last.taken, want.taken)
	}
	return records, nil
}

// construct builds the flow that this partition runs.
func (o *owner) construct() error {
	flow, graph := newLogDriven(o.opts.Flow, o.opts.Codec, o.answer, !o.opts.EndOnFailure)
	location, part := o.layout.place(o.partition)
	graph.Settings.Parts, graph.Settings.Part = o.opts.Partitions, part
	graph.Settings.Recorder = o.recorder
	o.build(flow)
	o.graph = graph
	if !o.graph.Start(context.WithoutCancel(o.ctx)) {
		return dataflow.ErrStarted
	}
	o.executor = logdriven.NewExecutor(o.graph, location)
	return nil
}
