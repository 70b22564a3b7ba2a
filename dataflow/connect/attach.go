package connect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/dataflow"
)

// An App is a running flow: a dataflow.App or a durable.App.
type App interface {
	dataflow.Remembering
	Done() <-chan struct{}
	Err() error
}

// Options say how a source is read. The zero value is usable.
type Options struct {
	// Discover is how often to look for splits of the source. Zero means 30 seconds.
	Discover time.Duration
	// Floor is how often the position of a split is made durable. Zero means a second. After a
	// crash, what came since is repeated.
	Floor time.Duration
	// Version identifies how the source decodes a record, above all its key. A record that gets another key may go to another
	// partition, which does not know that the record was taken. So if the version has changed, reading of a split continues only
	// if its pump was stopped in order before. Otherwise the split ends with [ErrVersion].
	Version string
	// Idle is how long a split must be silent before it counts as idle, so that window.StampSplits no longer waits for it. Zero
	// means that no split is ever idle. Time counts only while the pump waits for the split and no records are known to wait
	// after those that have come. Time that the flow needs to take records does not count. Idle requires a port of [SplitsInput].
	Idle time.Duration
	// DeadLetters takes records that could not be decoded, and those that the flow refuses because they are too large for its log,
	// or have a key that cannot be one. Without it, the first such record ends its split. For a [Delivered] source it must come
	// from [RepeatedDeadLetters].
	DeadLetters *DeadLetterPort
	// MostBad is how many records in a row may be bad. Zero means 1,000. More end the split, because then the decoding is
	// probably wrong and not the records.
	MostBad int
	// SkipGaps continues after records that the source no longer has, and sends a dead letter that says which. Without it, the
	// split ends with [ErrGap]. It requires DeadLetters, and a reader that can then be opened at the zero position.
	SkipGaps bool
	// OnError is called with each error of a split, including those after which the split is tried again. If a look for splits
	// fails and is repeated, it is called with an empty Split. Several goroutines may call it at once.
	OnError func(s Split, err error)
}

func (o Options) withDefaults() Options {
	if o.Discover <= 0 {
		o.Discover = 30 * time.Second
	}
	if o.Floor <= 0 {
		o.Floor = time.Second
	}
	if o.MostBad <= 0 {
		o.MostBad = 1000
	}
	if o.OnError == nil {
		o.OnError = func(Split, error) {}
	}
	return o
}

// ErrVersion says that a split was last read with another [Options].Version, and that its pump did not stop in order.
var ErrVersion = errors.New("connect: the split was read by another version, which did not stop in order")

// ErrOrder says that a connector has a bug: the positions of a split do not grow.
var ErrOrder = errors.New("connect: positions of a split have to grow")

// Pumps read the splits of a source and send their records to a port. Any number of goroutines may call their methods.
type Pumps struct {
	assumed dataflow.NonDet
	cancel  context.CancelCauseFunc // ends reading
	abort   context.CancelFunc      // ends sending
	done    chan struct{}

	mu     sync.Mutex
	err    error
	splits map[string]*meter // by ID
}

// Attach reads a source and sends its records to a port, until ctx ends, the flow ends, or [Pumps.Stop] is called. Then it closes
// the source's reader. The error is that of the first look for splits, unless the look is repeated; see [Retry].
//
// A split is read by one goroutine, in the process that owns the partition of its floor. After a takeover
// another process reads it within a second. For a moment two processes may read it, which does no harm. Each
// batch is durable before the next one is sent.
func Attach[K comparable, V any, O dataflow.Order, R dataflow.Retries](ctx context.Context, app App, src Source[K, V, O, R], port *Port[K, V, O, R], opts Options) (*Pumps, error) {
	if src.reader == nil && src.receiver == nil {
		panic("connect.Attach: sources come from BySplit, Whole, ByKey, Unordered and Delivered")
	}
	if port == nil || port.in.send == nil {
		panic("connect.Attach: ports come from Input, WholeInput, UnorderedInput, DeliveredInput and EntryPort")
	}
	if opts.SkipGaps && opts.DeadLetters == nil {
		panic("connect.Attach: Options.SkipGaps without Options.DeadLetters: nobody would hear of what is skipped")
	}
	if port.in.notices != nil && !src.bySplit {
		panic("connect.Attach: the port is of connect.SplitsInput, and the source is not of connect.BySplit: its keys are not splits")
	}
	if port.in.notices == nil && opts.Idle > 0 {
		panic("connect.Attach: Options.Idle with a port that is not of connect.SplitsInput: nobody would hear of it")
	}
	if src.receiver != nil && opts.DeadLetters != nil && !opts.DeadLetters.repeats {
		panic("connect.Attach: records of a source that is connect.Delivered may come again, and so may its dead letters: use connect.RepeatedDeadLetters")
	}
	sending, abort := context.WithCancel(ctx)
	reading, cancel := context.WithCancelCause(sending)
	p := &Pumps{assumed: src.why, cancel: cancel, abort: abort, done: make(chan struct{}), splits: make(map[string]*meter)}
	if src.receiver != nil {
		r := &receiving[K, V]{input: port.in, pumps: p, receiver: src.receiver, opts: opts.withDefaults(), sending: sending}
		r.refusals = r.opts.refusals()
		go r.run(reading, app)
		return p, nil
	}
	a := &attached[K, V]{
		input: port.in, pumps: p, app: app, reader: src.reader, check: src.check, opts: opts.withDefaults(), sending: sending, pumped: make(map[string]*pumped),
	}
	splits, err := a.splits(ctx)
	if err != nil && !Passes(err) {
		abort()
		return nil, errors.Join(fmt.Errorf("connect: %s: looking for splits: %w", port.in.name, err), src.reader.Close())
	}
	go a.run(reading, splits, err)
	return p, nil
}

// Stop stops reading. Batches in progress are sent, the floor of each split is set to where it was read to, and the source is
// closed. So reading can continue there later without repeats. The flow continues to run. If ctx ends first, Stop gives up the
// batches in progress and returns the cause of ctx.
func (p *Pumps) Stop(ctx context.Context) error {
	p.cancel(errStopped)
	select {
	case <-p.done:
		return p.Err()
	case <-ctx.Done():
		p.abort()
		return context.Cause(ctx)
	}
}

var errStopped = errors.New("connect: stopped")

// Done returns a channel that is closed when reading has ended.
func (p *Pumps) Done() <-chan struct{} { return p.done }

// Err returns why reading has ended, once [Pumps.Done] is closed, or nil if it ended in order. [Pumps.Status] says why a single
// split ended while others continue.
func (p *Pumps) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *Pumps) end(err error) {
	p.abort()
	p.mu.Lock()
	p.err = err
	p.mu.Unlock()
	close(p.done)
}
