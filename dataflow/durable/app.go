package durable

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/identity"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// An App is this process's part in a durable flow. Its methods may be called by any number of goroutines.
type App[P any] struct {
	// Ports is what the build function returned: the inputs and outputs of the flow.
	Ports P

	core *core
}

// A core is the part of an App that does not depend on the type of its ports. The methods of an App call those of
// its core, and the compiler makes only the former for each type of ports.
type core struct {
	opts              Options
	build             func(*dataflow.Flow)
	name              string // of the build function
	log               journal.Log
	measured          *measured      // the log of a running flow
	shared            journal.Shared // the log, if several processes have it open; else nil
	flow              *dataflow.Flow // for sending and reading in this process
	facade            *engine.Graph  // graph of flow
	layout            layout
	senders           []map[int32]identity.Operator // by location and index
	gateway           *gateway
	readOnly          bool       // reads the history only
	partitionsFromLog bool       // take the number of partitions from the log
	peers             *peers     // nil if no other process can own a partition
	agreed            *agreement // reached when every partition can go on with the program; nil if peers is not
	metrics           metrics
	witnessing        witnessState
	limit             int64 // of the log; zero if there is none
	reserved          reserved
	waits             waits

	ctx       context.Context // ends when everything has to end
	cancel    context.CancelCauseFunc
	started   chan struct{} // closed when all owners have begun, or never will
	done      chan struct{} // closed when nothing is sent any longer
	over      chan struct{} // closed when everything has ended
	abandoned atomic.Bool   // end without a last snapshot, as a crash does
	readers   chan struct{} // signaled when something was read
	nonces    atomic.Uint64

	feeding sync.Mutex
	owners  sync.WaitGroup
	tasks   sync.WaitGroup
	ending  atomic.Bool
	leaving context.CancelFunc // ends the owners
	err     error              // why it ended; written before over is closed
}

// Start builds a flow, restores its state from the log, and runs it. It returns when the ports can be used. The
// flow ends when ctx ends, as with [dataflow.Start]. If ctx ends before the state is restored, Start returns the
// cause. It waits no longer than ten seconds for a function of the program that does not return; the error then says
// that the log is still open.
//
// The function build adds locations, operators and ports to the flow it is given, and returns the ports. Start
// calls it once for the ports, and again each time a partition is restored, so it has to build the same flow
// each time. The functions it gives to operators must depend on their arguments alone, since steps are replayed
// after a crash.
//
// A Send to a port returns when the record is durable. An output shows only what durable steps have given.
// Elements of an output are given again after a crash unless the reader came back for more or acknowledged them
// ([dataflow.OutputPort.Receive]), so handling an element twice must be the same as handling it once.
func Start[P any](ctx context.Context, build func(*dataflow.Flow) P, opts Options) (*App[P], error) {
	engine.Given("durable.Start", build)
	if ctx == nil {
		engine.NilContext("durable.Start")
	}
	c, err := newCore(opts, func(f *dataflow.Flow) { build(f) }, nameOf(build))
	if err != nil {
		return nil, err
	}
	app := &App[P]{Ports: build(c.flow), core: c}
	if err := c.start(ctx); err != nil {
		return nil, err
	}
	return app, nil
}

// newCore returns a core with a flow for ports.
func newCore(opts Options, build func(*dataflow.Flow), name string) (*core, error) {
	c := &core{
		opts: opts.withDefaults(), build: build, name: name,
		started: make(chan struct{}), done: make(chan struct{}), over: make(chan struct{}), readers: make(chan struct{}, 1),
	}
	if c.opts.Flow.OnBlocked == nil {
		c.opts.Flow.OnBlocked = func(e *dataflow.BlockedError) { c.opts.Logger.Warn(e.Error()) }
	}
	c.nonces.Store(rand.Uint64() >> 8)
	if err := c.opts.check(); err != nil {
		return nil, err
	}
	c.gateway = &gateway{core: c}
	c.flow, c.facade = newRemote(c.opts.Flow, c.opts.Codec, c.gateway)
	return c, nil
}

// Run is Start for a program that does everything in other goroutines: it calls started with the ports, and
// returns when the flow has ended.
func Run[P any](ctx context.Context, build func(*dataflow.Flow) P, opts Options, started func(ports P)) error {
	engine.Given("durable.Run", build, started)
	app, err := Start(ctx, build, opts)
	if err != nil {
		return err
	}
	started(app.Ports)
	<-app.Done()
	return app.Err()
}

func (c *core) start(ctx context.Context) (err error) {
	if c.layout, err = layoutOf(c.facade, c.opts.Partitions); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	for i := range c.facade.NumLocations() {
		if values := logdriven.Values(c.facade, i); c.facade.Divided(i) && len(values) > 0 {
			return fmt.Errorf("durable: %s: the location is divided, and each partition has a value of its own: put it under a key, or use a dataflow.Process", values[0])
		}
	}
	if err := c.checkWitness(); err != nil {
		return err
	}
	if err := c.openLog(ctx); err != nil {
		return err
	}
	*c.gateway = *newGateway(c)
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if !c.facade.Start(c.ctx) {
		return dataflow.ErrStarted
	}
	for _, s := range c.facade.Locations {
		c.senders = append(c.senders, c.sendersOf(s))
	}
	owning, leaving := context.WithCancel(c.ctx)
	c.leaving = leaving
	c.tasks.Go(c.requestReadsRecorded)
	c.beginWitness()
	if err := c.bound(ctx); err != nil {
		c.opts.Logger.Warn("it is not known how full the log is", "error", err)
	}
	c.tasks.Go(func() {
		select {
		case <-ctx.Done():
			leaving() // a start that waits for its partitions waits no longer
			go c.end(context.Cause(ctx), ErrStopped)
		case <-c.done:
		}
	})
	begun := make(chan error, 1)
	go func() { begun <- c.begin(ctx, owning) }()
	if err = outcome(ctx, begun); err == errStillOpen {
		err = errors.Join(context.Cause(ctx), err)
	}
	return err
}

// begin begins to own partitions, and returns when those of this process are restored.
func (c *core) begin(ctx, owning context.Context) error {
	err := c.join(owning)
	if c.peers != nil && err == nil {
		for i := range c.facade.NumLocations() {
			if len(logdriven.Values(c.facade, i)) > 0 {
				c.tasks.Go(func() { c.peers.watchValues(owning, i) })
			}
		}
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx) // partitions may not have been restored
	}
	close(c.started)
	if err != nil {
		c.end(err, ErrStopped)
	}
	return err
}

// feed shows a committed step at the ports of this process.
func (c *core) feed(partition int, numbers *logdriven.Numbers, s *step, full *engine.Blocked) error {
	pg := c.gateway.partitions[partition]
	pg.committed(s)
	if len(s.Outputs) > 0 {
		location, _ := c.layout.place(partition)
		c.feeding.Lock()
		err := logdriven.Feed(c.facade, location, partition, numbers, s.Outputs, s.Gave...)
		c.feeding.Unlock()
		if err != nil {
			return err
		}
	}
	c.took(partition, s, full)
	return nil
}

// feedWhole shows at the ports everything that the outputs of a partition hold. That may be less than the ports
// have shown: another process has owned the partition meanwhile, or owns it now.
func (c *core) feedWhole(partition int, numbers *logdriven.Numbers, outputs []byte) error {
	location, _ := c.layout.place(partition)
	c.feeding.Lock()
	defer c.feeding.Unlock()
	return logdriven.FeedWhole(c.facade, location, partition, numbers, outputs, func(op *engine.Op, key []byte) bool { return c.ofStored(location, op.Index, key) == partition })
}

// feedFrom is feedWhole for a partition that runs in this process.
func (c *core) feedFrom(partition int, l *logdriven.Executor) error {
	location, _ := c.layout.place(partition)
	c.feeding.Lock()
	defer c.feeding.Unlock()
	return logdriven.FeedFrom(c.facade, location, partition, l, func(op *engine.Op, key []byte) bool { return c.ofStored(location, op.Index, key) == partition })
}

// took tells senders what a committed step took.
func (c *core) took(partition int, s *step, full *engine.Blocked) {
	if c.gateway.partitions[partition].took(s, full) {
		c.warn(partition)
	}
}

// requestReadsRecorded writes into the history what was read, batched over a short time.
func (c *core) requestReadsRecorded() {
	const gather = 20 * time.Millisecond
	for {
		select {
		case <-c.readers:
		case <-c.done:
			return
		}
		select {
		case <-time.After(gather):
		case <-c.done:
			return
		}
		c.gateway.recordReads(c.ctx)
	}
}

func (g *gateway) nonce() uint64 { return g.nonces.Add(1) }

// Stop ends this process's part in the flow: it refuses further sends, makes a last snapshot of each partition
// and hands the partitions over. It does not wait until all incoming records are handled, since they are
// stored, and it does not wait for space in a full log: if a snapshot does not fit, the next owner replays the
// steps instead. Elements of outputs that readers have acknowledged do not come again, unless a partition is so
// far behind that it does not take the acknowledgement within a second. If ctx ends first, Stop ends at once,
// without snapshots, and returns the cause. It waits no longer than ten seconds for a function of the program that
// does not return: then the log stays open until [App.Done] is closed, and the error says so. It is safe to call
// Stop more than once.
func (a *App[P]) Stop(ctx context.Context) error { return a.made().stop(ctx) }

func (c *core) stop(ctx context.Context) error {
	if ctx == nil {
		engine.NilContext("durable.App.Stop")
	}
	select {
	case <-c.over: // the outcome is known, even if ctx has ended
		return c.err
	default:
	}
	if ctx.Err() != nil { // or a snapshot could finish before ctx is looked at below
		c.abandoned.Store(true)
	}
	stopped := make(chan error, 1)
	go func() {
		c.end(nil, ErrStopped)
		stopped <- c.err
	}()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
		c.abandoned.Store(true)
		c.cancel(context.Cause(ctx))
		return errors.Join(context.Cause(ctx), outcome(ctx, stopped))
	}
}

// outcome returns the error that done gives, or errStillOpen if that takes too long after ctx has ended.
func outcome(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(abortsWithin):
		return errStillOpen
	}
}

// abortsWithin is how long Start and Stop wait after their context has ended. An action of the log takes less even on
// a busy machine, and the log should be free when they return.
const abortsWithin = 10 * time.Second

// errStillOpen says that the owner of a partition goes on after Start or Stop has returned.
var errStillOpen = fmt.Errorf("durable: a step has not ended %v later, since a function of the program does not return or the log does not answer: the log stays open until it ends", abortsWithin)

// Graph describes the locations and operators of the flow.
func (a *App[P]) Graph() dataflow.Graph { return a.made().flow.Graph() }

// Done is closed when the flow has ended in this process.
func (a *App[P]) Done() <-chan struct{} { return a.made().over }

// Err returns nil while the flow runs and after Stop. Otherwise it returns why the flow ended: a
// [*dataflow.StepError] if a function panicked, a [*DivergedError], an error of the log, or the cause of the
// context's end. A flow runs as long as one of its partitions does; see [PartitionError] and [App.Status].
func (a *App[P]) Err() error { return a.made().whyEnded() }

func (c *core) whyEnded() error {
	select {
	case <-c.over:
		return c.err
	default:
		return nil
	}
}

// made returns the core of an app that Start made.
func (a *App[P]) made() *core {
	if a == nil || a.core == nil {
		engine.Unmade("durable.App", "apps come from durable.Start")
	}
	return a.core
}

// end ends everything because of err. Reads of a port end with err, or with io.EOF if it is nil, and sends fail with
// refusal. Only the first call has an effect; all return when everything has ended.
func (c *core) end(err, refusal error) {
	if !c.ending.CompareAndSwap(false, true) {
		<-c.over // a channel, since time in a synctest bubble stands still while a goroutine waits for a sync.Once
		return
	}
	defer close(c.over)
	c.err = err
	if err == nil && !c.abandoned.Load() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), time.Second)
		c.gateway.takeReads(ctx)
		cancel()
	}
	c.leaving()
	<-c.started // until then owners may still begin
	c.owners.Wait()
	if c.peers != nil && c.peers.member != nil {
		c.peers.leave()
	}
	if !c.abandoned.Load() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), time.Second)
		c.gateway.recordReads(ctx)
		cancel()
	}
	logdriven.End(c.facade, err) // before cancel, which fails what has not ended, in a goroutine of its own
	c.cancel(refusal)
	close(c.done)
	c.tasks.Wait()
	if e := c.log.Close(); e != nil && c.err == nil {
		c.err = e
	}
}

// ended is called by an owner that cannot go on.
func (c *core) ended(err error) {
	c.opts.Logger.Error("the flow ends", "error", err)
	go c.end(err, &failure{err})
}

// A failure is the cause of the end of a flow that could not go on.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

// refusal returns the error of the ports after the flow has ended: the flow's failure, or that it was stopped.
func (c *core) refusal() error {
	if f, ok := context.Cause(c.ctx).(*failure); ok {
		return f.error
	}
	return dataflow.ErrClosed
}
