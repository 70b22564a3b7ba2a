package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect/internal/panics"
)

// DrainOptions say how an output is written.
type DrainOptions struct {
	// Flow and Output name the lanes. They must stay the same for as long as the history is kept, and must differ between all
	// flows and outputs that write to the same system. Drain panics without them.
	Flow, Output string
	// Most is how many elements are written at once at most. Zero means 1,000. Available elements
	// are written without waiting for more.
	Most int
	// OnError is called with each error of a lane, including those after which the lane is tried again.
	OnError func(l Lane, err error)
}

func (o DrainOptions) withDefaults() DrainOptions {
	if o.Flow == "" || o.Output == "" {
		panic("connect.Drain: DrainOptions.Flow and Output name the lanes in the sink, and cannot be empty")
	}
	if o.Most <= 0 {
		o.Most = 1000
	}
	if o.OnError == nil {
		o.OnError = func(Lane, error) {}
	}
	return o
}

// Drains write the lanes of an output to a sink. Any number of goroutines may call their methods.
type Drains struct {
	cancel context.CancelFunc // ends reading the output
	abort  context.CancelFunc // ends writing
	done   chan struct{}

	mu    sync.Mutex
	err   error
	lanes map[int]*laneMeter
}

// Drain writes the elements of an output to a sink, until the flow has ended and everything is written, ctx ends, or
// [Drains.Stop] is called. It must be the only reader of the output.
//
// Each partition is a lane. The process that owns the partition writes its batches one after another, and concurrently with other
// lanes. The flow keeps an element until the sink has it. When a process is killed, or the partition moves, the lane is opened
// again: an [Atomic] sink says what it has, and elements that it has are dropped when the flow gives them again.
//
// A lane that cannot continue ends, and with it all of Drain. The error is [ErrGap] if the flow has forgotten elements that the
// sink does not have, such as after the sink was restored from a backup. It is [ErrAhead] if the sink has elements that the flow
// never gave. Errors of the sink that are not marked with [Retry] end the lane too.
//
// The numbers of a flow in memory start again whenever it starts. So [DrainOptions].Flow must then differ each time. Otherwise
// Drain to an Atomic sink ends with ErrAhead.
func Drain[T any, E Effect](ctx context.Context, app App, out *dataflow.OutputPort[T], sink Sink[T, E], opts DrainOptions) *Drains {
	opts = opts.withDefaults()
	writing, abort := context.WithCancel(ctx)
	reading, cancel := context.WithCancel(writing)
	d := &Drains{cancel: cancel, abort: abort, done: make(chan struct{}), lanes: make(map[int]*laneMeter)}
	drain := &drain[T, E]{Drains: d, app: app, out: out, sink: sink, opts: opts, writing: writing, queues: make(map[int]*queue[dataflow.Batch[T]])}
	go drain.run(reading)
	return d
}

// Stop stops writing. Batches in progress are written, and the lanes are closed. If ctx ends first, Stop gives up those batches
// and returns the cause of ctx. A durable flow keeps what was not written.
func (d *Drains) Stop(ctx context.Context) error {
	d.cancel()
	select {
	case <-d.done:
		return d.Err()
	case <-ctx.Done():
		d.abort()
		return context.Cause(ctx)
	}
}

// Done returns a channel that is closed when writing has ended.
func (d *Drains) Done() <-chan struct{} { return d.done }

// Err returns why writing has ended, once [Drains.Done] is closed, or nil if it ended in order.
func (d *Drains) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// fail records the first error, which ends everything.
func (d *Drains) fail(err error) {
	d.mu.Lock()
	if d.err == nil {
		d.err = err
	}
	d.mu.Unlock()
	d.cancel()
}

type drain[T any, E Effect] struct {
	*Drains
	app     App
	out     *dataflow.OutputPort[T]
	sink    Sink[T, E]
	opts    DrainOptions
	writing context.Context                   // ends later than the context of reading, so that batches in progress can be written
	queues  map[int]*queue[dataflow.Batch[T]] // by partition
	group   sync.WaitGroup
}

// run reads the output and gives each lane its batches.
func (d *drain[T, E]) run(ctx context.Context) {
	defer close(d.done)
	defer d.abort()
	for {
		b, err := d.out.ReceiveBatch(ctx, d.opts.Most)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, io.EOF) && !d.stopped(ctx) {
				d.fail(fmt.Errorf("connect: %s: %w", d.opts.Output, err))
			}
			break
		}
		d.queue(ctx, b.Partition).put(ctx, b, len(b.Elements))
	}
	for _, q := range d.queues {
		q.close()
	}
	d.group.Wait()
}

// stopped waits for the end of a flow whose output has ended, and reports whether it ended in order.
func (d *drain[T, E]) stopped(ctx context.Context) bool {
	select {
	case <-d.app.Done():
		return d.app.Err() == nil
	case <-ctx.Done():
		return true
	}
}

// mostWaiting is how many elements of a lane may wait in addition to those being written. A lane may wait long, such as for a
// partition that another process has taken over, and other lanes must continue meanwhile. A durable flow keeps what is not
// acknowledged, and stops a partition at dataflow.Options.Buffer of that. So this bound matters for flows in memory, where there
// is one lane.
const mostWaiting = 1 << 16

// queue returns the queue for the batches of a partition, and starts its lane if necessary.
func (d *drain[T, E]) queue(ctx context.Context, partition int) *queue[dataflow.Batch[T]] {
	q, ok := d.queues[partition]
	if !ok {
		q = newQueue[dataflow.Batch[T]](mostWaiting)
		d.queues[partition] = q
		l := &lane[T, E]{drain: d, at: Lane{d.opts.Flow, d.opts.Output, partition}, laneMeter: d.meter(partition)}
		d.group.Go(func() {
			err := fmt.Errorf("connect: lane %s: %w", l.at, panics.ErrGoexit)
			defer func() { // also if run does not return
				if err != nil {
					d.fail(err)
				}
			}()
			err = l.run(ctx, q)
		})
	}
	return q
}

// A lane writes the batches of a partition.
type lane[T any, E Effect] struct {
	*drain[T, E]
	at Lane
	*laneMeter

	w    Writer[T, E] // nil while the lane is not open
	last uint64       // the sink contains the elements up to this one
}

func (l *lane[T, E]) run(ctx context.Context, q *queue[dataflow.Batch[T]]) (err error) {
	defer func() {
		if closed := l.close(); closed != nil && err == nil {
			err = fmt.Errorf("connect: lane %s: closing: %w", l.at, closed)
		}
	}()
	left := false
	for b, ok := q.take(); ok; b, ok = q.take() {
		if left || ctx.Err() != nil {
			continue // the flow keeps it
		}
		err := l.handle(ctx, l.gather(q, b))
		switch {
		case err == nil:
		case l.writing.Err() != nil || errors.Is(err, errLeft):
			left = true
		default:
			return err
		}
	}
	return nil
}

// A gathered is a batch made of several consecutive batches of the flow.
type gathered[T any] struct {
	dataflow.Batch[T]
	given []dataflow.Batch[T]
}

// Ack acknowledges all of the batches.
func (g gathered[T]) Ack() {
	for _, b := range g.given {
		b.Ack()
	}
}

// gather adds the directly following batches in the queue to a batch, as long as they can be written at once. Otherwise, while
// the sink is slow, elements that arrive one by one would be written one by one.
func (l *lane[T, E]) gather(q *queue[dataflow.Batch[T]], b dataflow.Batch[T]) gathered[T] {
	all := gathered[T]{b, []dataflow.Batch[T]{b}}
	for {
		n := len(all.Elements)
		next, ok := q.takeIf(func(next dataflow.Batch[T]) bool {
			return next.First == all.First+uint64(n) && n+len(next.Elements) <= l.opts.Most
		})
		if !ok {
			return all
		}
		if len(all.given) == 1 {
			all.Elements = slices.Clone(all.Elements) // the flow still uses that array
		}
		all.Elements = append(all.Elements, next.Elements...)
		all.given = append(all.given, next)
	}
}

// errLeft says that a lane was left in the middle, because the flow has ended or is about to.
var errLeft = errors.New("connect: left")

// handle writes a batch and acknowledges it. It tries again after errors that pass.
func (l *lane[T, E]) handle(ctx context.Context, b gathered[T]) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := l.write(b.Batch)
		if err == nil {
			b.Ack()
			return nil
		}
		if l.writing.Err() != nil {
			return err
		}
		err = fmt.Errorf("connect: lane %s: %w", l.at, err)
		l.failed(err)
		l.opts.OnError(l.at, err)
		if closed := l.close(); closed != nil {
			l.opts.OnError(l.at, fmt.Errorf("connect: lane %s: closing: %w", l.at, closed))
		}
		if !Passes(err) && !errors.Is(err, ErrFenced) {
			return err
		}
		if !wait(ctx, pauseAfter(err, pause)) || !l.owned(ctx) {
			return errLeft
		}
	}
}

// owned waits until this process owns the lane's partition. Another writer can only have taken the lane over because its process
// owns the partition. It returns false if ctx or the flow ends first.
func (l *lane[T, E]) owned(ctx context.Context) bool {
	for {
		if _, owned, err := l.out.Given(ctx, l.at.Partition); owned && err == nil {
			return true
		}
		select {
		case <-l.app.Done():
			return false
		default:
		}
		if !wait(ctx, looks) {
			return false
		}
	}
}

func (l *lane[T, E]) close() error {
	if l.w == nil {
		return nil
	}
	w := l.w
	l.w = nil
	return w.Close()
}

// write writes the elements of a batch that the sink does not have. It opens the lane if that is not open.
func (l *lane[T, E]) write(b dataflow.Batch[T]) error {
	if l.w != nil && b.First > l.last+1 {
		// Another process has owned the partition meanwhile and written the elements in between.
		if err := l.close(); err != nil {
			return fmt.Errorf("closing: %w", Retry(err))
		}
	}
	if l.w == nil {
		if err := l.open(b); err != nil {
			return err
		}
	}
	first, xs := b.First, b.Elements
	if known := l.last + 1; known > first {
		n := min(known-first, uint64(len(xs)))
		first, xs = first+n, xs[n:]
	}
	if len(xs) == 0 {
		l.written() // a write had its effect although it failed, or another process has written
		return nil
	}
	begun := time.Now()
	if err := l.writeSafely(first, xs); err != nil {
		return fmt.Errorf("writing %d elements from number %d on: %w", len(xs), first, err)
	}
	l.last = first + uint64(len(xs)) - 1
	l.wrote(len(xs), l.last, time.Since(begun))
	return nil
}

// writeSafely returns a panic of the writer as an error. The program has given it the function that encodes elements.
func (l *lane[T, E]) writeSafely(first uint64, xs []T) (err error) {
	defer panics.Catch("writing them", &err)
	_, err = l.w.Write(l.writing, first, xs)
	return err
}

// open opens the lane and compares what the sink has with what the flow gives.
func (l *lane[T, E]) open(b dataflow.Batch[T]) error {
	w, last, err := l.sink.Open(l.writing, l.at)
	if err != nil {
		return fmt.Errorf("opening: %w", err)
	}
	l.w, l.last = w, last
	if _, atomic := any(*new(E)).(Atomic); !atomic {
		return nil
	}
	if last+1 < b.First {
		return fmt.Errorf("%w: the sink has elements up to %d, and the flow gives those from %d on", ErrGap, last, b.First)
	}
	if err := l.behind(last); err != nil {
		return err
	}
	l.opened(last)
	return nil
}

// behind returns an error if the sink is ahead of the flow. If another process owns the partition, it may have written elements
// that this process does not know of. This process may learn a moment later than others that it no longer owns the partition.
func (l *lane[T, E]) behind(last uint64) error {
	for looked := time.Now(); ; {
		given, owned, err := l.out.Given(l.writing, l.at.Partition)
		switch {
		case err != nil:
			return Retry(err)
		case !owned:
			return fmt.Errorf("%w: it has elements up to %d", ErrFenced, last)
		case last <= given:
			return nil
		case time.Since(looked) > lookWithin:
			return fmt.Errorf("%w: it has elements up to %d, and the flow has given %d", ErrAhead, last, given)
		case !wait(l.writing, looks):
			return context.Cause(l.writing)
		}
	}
}
