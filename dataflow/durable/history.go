package durable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// A History reads the stored history of a flow: which steps were made, and what a partition remembered after
// any of them. It changes nothing. A history in a folder cannot be opened while a process runs the flow on it;
// that process itself can use [App.History]. Its methods may be called by any number of goroutines.
//
// A History caches images of what partitions remembered after some steps, at most 64 MiB in all and eight of
// each partition, so that [History.At] need not begin at the first step each time.
type History struct {
	core     *core
	names    *engine.Graph // the flow, for the names of its operators
	graph    dataflow.Graph
	borrowed bool // the log belongs to an app

	mu      sync.Mutex
	numbers []*logdriven.Numbers // of operators, by partition; nil until known
	images  images
	marks   []marks // by partition
}

// OpenHistory opens the history of the flow that build builds, as [Start] does, but never makes a new one. It
// returns an [ErrChanged] if another program made the history, unless [Options].Upgrade declares the changes;
// to find this out it reads as much as a start does. Options.Partitions may be zero, whatever the history has.
func OpenHistory[P any](ctx context.Context, build func(*dataflow.Flow) P, opts Options) (*History, error) {
	engine.Given("durable.OpenHistory", build)
	if ctx == nil {
		engine.NilContext("durable.OpenHistory")
	}
	c := &core{opts: opts.withDefaults(), build: func(f *dataflow.Flow) { build(f) }, name: nameOf(build)}
	flow, names := newRemote(c.opts.Flow, c.opts.Codec, &gateway{core: c})
	build(flow)
	h := &History{core: c, names: names, graph: flow.Graph()}
	var err error
	if c.layout, err = layoutOf(h.names, c.opts.Partitions); err != nil {
		return nil, err
	}
	c.readOnly, c.partitionsFromLog = true, opts.Partitions == 0
	if err := c.openLog(ctx); err != nil {
		return nil, err
	}
	if c.partitionsFromLog {
		if err := h.count(); err != nil {
			return nil, errors.Join(err, c.log.Close())
		}
	}
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := h.fits(ctx); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// count derives the number of parts of each divided location from the number of partitions of the log.
func (h *History) count() (err error) {
	c, fixed, divided := h.core, 0, 0
	for i := range h.names.NumLocations() {
		if h.names.Divided(i) {
			divided++
		} else {
			fixed++
		}
	}
	n := c.log.Partitions()
	if divided == 0 && n != fixed || divided > 0 && (n-fixed < divided || (n-fixed)%divided != 0) {
		return fmt.Errorf("durable: the log has %d partitions, and the flow has %d locations that are divided and %d that are not", n, divided, fixed)
	}
	if divided > 0 {
		c.opts.Partitions = (n - fixed) / divided
	}
	c.layout, err = layoutOf(h.names, c.opts.Partitions)
	return err
}

// fits returns an error if this program cannot go on from the history of a partition, and notes the numbers
// of its operators.
func (h *History) fits(ctx context.Context) error {
	h.begin()
	for p := range h.Partitions() {
		if _, err := h.numbersOf(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// begin allocates what is kept for each partition.
func (h *History) begin() {
	h.numbers, h.marks = make([]*logdriven.Numbers, h.Partitions()), make([]marks, h.Partitions())
}

// numbersOf returns the numbers of the operators of a partition, or nil if the partition has no steps. It
// returns an error if this program cannot go on from its history.
func (h *History) numbersOf(ctx context.Context, p int) (*logdriven.Numbers, error) {
	h.mu.Lock()
	known := h.numbers[p]
	h.mu.Unlock()
	if known != nil {
		return known, nil
	}
	kept, err := h.core.log.Restore(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("durable: partition %d: %w", p, err)
	}
	if kept.Fence == 0 {
		return nil, nil
	}
	o := &owner{core: h.core, partition: p, of: h.core.originOf(p)}
	if err := o.construct(); err != nil {
		return nil, err
	}
	defer o.graph.Fail(ErrStopped)
	var begins *snapshot
	if kept.Snapshot != nil {
		s, err := newest(o.of, kept.Snapshot)
		if err != nil {
			return nil, fmt.Errorf("durable: partition %d: %w", p, err)
		}
		begins = &s
	}
	if err := o.fit(kept, begins); err != nil {
		return nil, fmt.Errorf("durable: partition %d: %w", p, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.numbers[p] = o.program.numbers
	return o.program.numbers, nil
}

// Close closes the history. The log stays open if it belongs to an app.
func (h *History) Close() error {
	h.core.cancel(ErrStopped)
	if h.borrowed {
		return nil
	}
	return h.core.log.Close()
}

// Partitions returns the number of partitions, over all locations. The partitions of a location follow those of
// the location that the program makes before it.
func (h *History) Partitions() int { return h.core.log.Partitions() }

// Graph describes the locations and operators of the flow.
func (h *History) Graph() dataflow.Graph { return h.graph }

// A PartitionInfo says how much of a partition's history is stored.
type PartitionInfo struct {
	Records, Steps uint64 // messages and steps that are stored
	Bytes          uint64 // on the disk of one replica; an estimate
	Last           uint64 // number of the last step, zero if there is none
	Snapshot       uint64 // number of the step that the snapshot was made after, zero if there is none
	Diverged       uint64 // as in [PartitionStatus], as of the snapshot
	Version        string // of the program that made the last step, as [Options].Version
}

// Partition returns how much of a partition's history is stored.
func (h *History) Partition(ctx context.Context, partition int) (PartitionInfo, error) {
	usage, err := h.core.log.Usage(ctx, partition)
	if err != nil {
		return PartitionInfo{}, err
	}
	kept, err := h.core.log.Restore(ctx, partition)
	if err != nil {
		return PartitionInfo{}, err
	}
	info := PartitionInfo{Records: usage.Records, Steps: usage.Steps, Bytes: usage.Bytes, Last: kept.Fence, Snapshot: kept.At}
	var begins *snapshot
	if kept.Snapshot != nil {
		s, err := newest(h.core.originOf(partition), kept.Snapshot)
		if err != nil {
			return info, fmt.Errorf("durable: partition %d: %w", partition, err)
		}
		begins, info.Diverged = &s, s.diverged
	}
	if info.Version, err = versionOf(h.core.originOf(partition), kept, begins); err != nil {
		return info, fmt.Errorf("durable: partition %d: %w", partition, err)
	}
	return info, nil
}

// A StepInfo describes one committed step.
type StepInfo struct {
	Number  uint64    // of the step; numbers grow
	At      time.Time // the time that the step read; zero if the beginning of the history is gone
	Taken   uint64    // position of the last message taken
	Refused int       // number of records
	Outputs []byte    // for [History.DescribeOutputs]

	now int64 // since the origin of the clock
}

// Steps iterates over the stored steps of a partition, in order.
func (h *History) Steps(ctx context.Context, partition int) iter.Seq2[StepInfo, error] {
	return h.StepsAfter(ctx, partition, 0)
}

// StepsAfter iterates over the stored steps of a partition after step number after, in order.
func (h *History) StepsAfter(ctx context.Context, partition int, after uint64) iter.Seq2[StepInfo, error] {
	return func(yield func(StepInfo, error) bool) {
		if err := h.stepsAfter(ctx, partition, after, func(s StepInfo) bool { return yield(s, nil) }); err != nil {
			yield(StepInfo{}, err)
		}
	}
}

func (h *History) stepsAfter(ctx context.Context, partition int, after uint64, yield func(StepInfo) bool) error {
	kept, err := h.core.log.Restore(ctx, partition)
	if err != nil || kept.Fence <= after {
		return err
	}
	if after > 0 { // the log wants the number of an existing step
		place, err := h.Place(ctx, partition, after)
		if err != nil && !errors.Is(err, ErrNoStep) {
			return err
		}
		after = place.Number // 0 for a step before the first one
	}
	of, clock := h.core.originOf(partition), int64(0)
	if kept.Snapshot != nil {
		s, err := newest(of, kept.Snapshot)
		if err != nil {
			return err
		}
		clock = s.clock
	} else if after > 0 { // the first step is still stored
		err := h.stepsAfter(ctx, partition, 0, func(s StepInfo) bool {
			clock = s.At.UnixNano() - s.now
			return false
		})
		if err != nil {
			return err
		}
	}
	steps, err := h.core.log.Steps(ctx, partition, after)
	if err != nil {
		return err
	}
	defer steps.Close()
	for last := after; last < kept.Fence; {
		committed, err := steps.Next(ctx)
		if err != nil {
			return err
		}
		s, err := decodeStep(of, committed.Data)
		if err != nil {
			return err
		}
		if s.begin {
			clock = s.clock
		}
		info := StepInfo{Number: committed.Fence, Taken: s.taken, Refused: len(s.Refused), Outputs: s.Outputs, now: s.now}
		if clock != 0 {
			info.At = time.Unix(0, clock+s.now)
		}
		if last = committed.Fence; !yield(info) {
			return nil
		}
	}
	return nil
}

// Location returns the name of the location that a partition belongs to.
func (h *History) Location(partition int) string {
	location, _ := h.core.layout.place(partition)
	return h.names.Location(location)
}

// DescribeOutputs writes the outputs of a step of a partition, in a form for people.
func (h *History) DescribeOutputs(w io.Writer, partition int, outputs []byte) error {
	if len(outputs) == 0 {
		return nil
	}
	numbers, err := h.numbersOf(h.core.ctx, partition)
	if err != nil {
		return err
	}
	location, _ := h.core.layout.place(partition)
	return logdriven.DescribeOutputs(h.names, w, location, numbers, outputs)
}

// Replay replays the steps of a partition up to step number to, or all of them if to is zero. It writes, in a
// form for people, what the partition remembered then and what its outputs held: at most most entries of each
// operator. It begins with the snapshot if that is not later than step to, and else with the first step, which
// must still be stored: [Options].KeepFor = [Forever]. A step that gives a different result than recorded ends
// it with a [*DivergedError].
func (h *History) Replay(ctx context.Context, partition int, to uint64, w io.Writer, most int) error {
	kept, err := h.until(ctx, partition, to)
	if err != nil {
		return err
	}
	o := &owner{core: h.core, partition: partition, of: h.core.originOf(partition)}
	reader, err := o.follow(ctx, kept)
	if err != nil {
		return err
	}
	defer o.graph.Fail(ErrStopped)
	defer reader.close()
	fmt.Fprintf(w, "partition %d after step %d, at %v; %d steps made again\n\n",
		partition, kept.Fence, time.Unix(0, o.last.clock+o.last.now).UTC().Format(time.RFC3339Nano), len(kept.Steps))
	if err := o.executor.Describe(w, most); err != nil {
		return err
	}
	outputs, err := o.executor.Outputs(nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\noutputs\n")
	return h.DescribeOutputs(w, partition, outputs)
}

// until returns the history of a partition as it was after step number to.
func (h *History) until(ctx context.Context, partition int, to uint64) (*journal.History, error) {
	kept, err := h.core.log.Restore(ctx, partition)
	switch {
	case err != nil:
		return nil, err
	case kept.Fence == 0:
		return nil, fmt.Errorf("durable: partition %d has no history", partition)
	case to == 0:
		return kept, nil
	case to > kept.Fence:
		return nil, fmt.Errorf("durable: partition %d has no step %d: its last one is %d", partition, to, kept.Fence)
	}
	if to < kept.At {
		if err := h.fromBeginning(ctx, partition, kept, to); err != nil {
			return nil, err
		}
	}
	for len(kept.Steps) > 0 && kept.Steps[len(kept.Steps)-1].Fence > to {
		kept.Steps = kept.Steps[:len(kept.Steps)-1]
	}
	kept.Fence = max(kept.At, to)
	return kept, nil
}

// fromBeginning replaces the snapshot of a history by the steps up to number to.
func (h *History) fromBeginning(ctx context.Context, partition int, kept *journal.History, to uint64) error {
	kept.Snapshot, kept.At, kept.Steps = nil, 0, nil
	steps, err := h.core.log.Steps(ctx, partition, 0)
	if err != nil {
		return err
	}
	defer steps.Close()
	for n := uint64(0); n < to; {
		s, err := steps.Next(ctx)
		if err != nil {
			return err
		}
		n = s.Fence
		kept.Steps = append(kept.Steps, s)
	}
	if first, err := decodeStep(h.core.originOf(partition), kept.Steps[0].Data); err != nil || !first.begin {
		return fmt.Errorf("durable: step %d of partition %d is before the snapshot, and the beginning of the history is gone: keep it with Options.KeepFor = durable.Forever", to, partition)
	}
	return nil
}
