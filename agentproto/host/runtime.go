package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host/internal/callback"
	"github.com/millrace/millrace/agentproto/host/internal/discovery"
	"github.com/millrace/millrace/agentproto/host/internal/dispatch"
	"github.com/millrace/millrace/agentproto/host/internal/display"
	"github.com/millrace/millrace/agentproto/host/internal/live"
	"github.com/millrace/millrace/agentproto/host/internal/memlimit"
	"github.com/millrace/millrace/agentproto/host/internal/migration"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
	"github.com/millrace/millrace/agentproto/host/internal/queue"
	"github.com/millrace/millrace/agentproto/host/internal/quota"
	"github.com/millrace/millrace/agentproto/host/internal/recent"
	"github.com/millrace/millrace/agentproto/host/internal/subscriptions"
	"github.com/millrace/millrace/agentproto/host/internal/watch"
	"github.com/millrace/millrace/agentproto/internal/trail"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/inspect"
	"github.com/millrace/millrace/internal/edge"
)

// delivering is the function that passes an event of a call to the program. Tests wrap it.
type delivering = func(ctx context.Context, key agentproto.CallKey, e agentproto.Event) error

// A running is a running flow: a [dataflow.App] or a [durable.App].
type running interface {
	inspect.App
	dataflow.Remembering
	Stop(ctx context.Context) error
}

// A Runtime makes tool calls. Its methods are safe for concurrent use.
//
// Its [agentproto.Program] makes the decisions about calls. The rest carries messages between the program, the tool servers and
// the user:
//
//	Call ──► program ──► dispatch ──► tool server
//	            ▲  │                       │
//	            │  └──► effects: results,  │
//	            │       surface, notices   │
//	            └────── callback endpoint ◄┘
type Runtime struct {
	opts      Options
	log       *slog.Logger
	sealer    Sealer
	program   *agentproto.Program
	deliverTo delivering
	flow      running
	kept      *durable.App[*Ports]  // flow, if it is durable
	agent     *conversation.Agent   // nil without a model
	threads   *conversation.Program // nil without a model
	moves     *migration.Migrator
	publicURL string
	// pathPrefix is the path of publicURL.
	pathPrefix string
	// addressed reports whether a request names this endpoint as its host. Nil means that this is not checked.
	addressed func(*http.Request) bool

	peers   *peer.Peers
	catalog *discovery.Catalog
	atStart *discovery.Offer // what was offered when the runtime started

	intake     *quota.Accounts
	bodies     *edge.Bytes // of callbacks in memory
	display    *display.Display
	subscribed *subscriptions.Open
	callbacks  *callback.Endpoint
	dispatcher *dispatch.Dispatcher
	trail      *trail.Trail
	live       live.Hub
	changes    watch.Calls // notifies those that wait for changes of calls

	ctx      context.Context // ends when everything has to end
	cancel   context.CancelFunc
	endpoint *edge.Server  // nil if it is External
	running  chan struct{} // closed when the program has started
	stopping atomic.Bool
	leaving  chan struct{} // closed when Stop begins
	stopped  chan struct{} // closed when Stop is done
	stopErr  error
	effects  sync.WaitGroup // the goroutine that performs effects
	surfaced sync.WaitGroup // the goroutine that calls the surface

	memory *memlimit.Limiter

	mu        sync.Mutex  // guards the fields below
	detach    func() bool // from the context of Start
	followers map[*queue.Queue[*agentproto.Resolution]]bool
	read      recent.Map[agentproto.CallKey, bool] // large results that the program was told were read
	known     recent.Map[agentproto.CallKey, bool] // calls that this process has made or has asked the flow for
	ended     bool
	tasks     sync.WaitGroup // answers and notifications in progress
}

// Start starts a runtime: it listens for callbacks and asks the tool servers for their manifests. A tool server that does not
// answer is reported as a [Problem] and not as an error. The runtime ends with [Runtime.Stop], or abruptly with ctx.
func Start(ctx context.Context, opts Options) (*Runtime, error) {
	if opts.State != nil && opts.Sealer == nil {
		return nil, errors.New("host: calls that are kept need a Sealer whose key is kept: see SealerOf")
	}
	if opts.State != nil && opts.Recorder != nil {
		return nil, errors.New("host: there is a State and a Recorder: the State keeps a history, which durable.History.Export writes to a file")
	}
	if opts.State != nil {
		state := *opts.State
		state.Partitions = cmp.Or(state.Partitions, 1)
		opts.State = &state
	}
	return start(ctx, opts, func(d delivering) delivering { return d })
}

// manyDispatches is how many dispatches the program may run at once. It is large because each waits for its turn at its own tool
// server.
const manyDispatches = 1 << 16

// start starts a runtime.
func start(ctx context.Context, opts Options, wrap func(delivering) delivering) (*Runtime, error) {
	opts, err := opts.withDefaults().withCommands()
	if err != nil {
		return nil, err
	}
	rt, err := configure(opts)
	if err != nil {
		return nil, err
	}
	listener, err := rt.listen()
	if err != nil {
		return nil, err
	}
	if err := rt.startCommands(ctx); err != nil {
		rt.peers.Stop(ctx)
		closeIfAny(listener)
		return nil, fmt.Errorf("host: %w", err)
	}
	if rt.atStart = rt.catalog.First(ctx); ctx.Err() != nil {
		rt.peers.Stop(ctx)
		closeIfAny(listener)
		return nil, fmt.Errorf("host: discovery: %w", context.Cause(ctx))
	}
	rt.ctx, rt.cancel = context.WithCancel(context.WithoutCancel(ctx))
	rt.catalog.Run(rt.ctx, rt.leaving)
	started := context.AfterFunc(ctx, rt.cancel) // a log that cannot be reached, or written, holds up the start
	err = rt.run(ctx, wrap)
	started()
	if err != nil {
		rt.cancel()
		rt.peers.Stop(ctx)
		closeIfAny(listener)
		return nil, fmt.Errorf("host: %w", err)
	}
	close(rt.running)
	rt.effects.Go(rt.perform)
	rt.surfaced.Go(func() { rt.display.Run(rt.ctx) })
	if listener != nil {
		rt.serve(listener)
	}
	rt.mu.Lock()
	rt.detach = context.AfterFunc(ctx, func() { rt.Stop(ctx) })
	rt.mu.Unlock()
	return rt, nil
}

// configure makes a runtime from its options. Nothing runs yet.
func configure(opts Options) (*Runtime, error) {
	bodies := edge.NewBytes(opts.Bounds.Bodies)
	rt := &Runtime{
		opts: opts, log: opts.Logger, sealer: opts.Sealer,
		intake: quota.New(opts.Bounds.Rates.bounds(), opts.Bounds.Waiting), bodies: bodies, subscribed: subscriptions.New(opts.Bounds.Subscriptions),
		trail: trail.New(), memory: memlimit.New(opts.Bounds.Memory),
		running: make(chan struct{}), stopped: make(chan struct{}), leaving: make(chan struct{}), followers: map[*queue.Queue[*agentproto.Resolution]]bool{},
	}
	var err error
	if rt.peers, err = peer.New(rt.peerConfig()); err != nil {
		return nil, err
	}
	rt.catalog = discovery.New(rt.peers, discovery.Settings{
		Limits: opts.Limits, Discovery: opts.Timeouts.Discovery, Dispatch: opts.Timeouts.Dispatch, Sessions: opts.Bounds.Sessions, Log: rt.log, Permits: opts.Permits,
	})
	if rt.sealer == nil {
		if rt.sealer, err = NewSealer(); err != nil {
			return nil, err
		}
	}
	surface := opts.Surface
	if surface == nil {
		surface = NewTerminal(os.Stdin, os.Stderr)
	}
	rt.display = display.New(surface, rt.sealer, display.Bounds{Views: opts.Bounds.Views, Bytes: opts.Bounds.ViewBytes, Threads: opts.Bounds.ViewThreads}, rt.log)
	rt.display.OnChange(rt.live.Touch)
	rt.dispatcher = dispatch.New(dispatch.Config{
		Peers: rt.peers, Subscriptions: rt.subscribed, Running: rt.running, Kept: opts.State != nil, AskStatus: opts.AskStatus, Trail: rt.trail, Tracer: opts.Tracer,
		Ack: opts.Timeouts.Ack, Total: opts.Timeouts.Dispatch, Answer: opts.Timeouts.Answer, Status: opts.Timeouts.Status, Log: rt.log,
	})
	if rt.moves, err = migration.New(migration.Config{
		Peers: rt.peers, Catalog: rt.catalog, Sealer: rt.sealer, Subscriptions: rt.subscribed, Display: rt.display,
		Key: opts.MigrationKey, OtherKeys: opts.OtherKeys, Kept: opts.State != nil, Running: rt.running, Stopping: rt.stopping.Load,
		Migrate: opts.Timeouts.Migrate, Transfer: opts.Timeouts.Transfer, Callback: opts.Timeouts.Callback, Log: rt.log,
	}); err != nil {
		return nil, err
	}
	rt.callbacks = callback.New(callback.Config{
		Peers: rt.peers, Catalog: rt.catalog, Sealer: rt.sealer, Accounts: rt.intake, Subscriptions: rt.subscribed, Display: rt.display,
		Flow: callbackFlow{rt}, Elsewhere: rt.moves, Stopping: rt.stopping.Load,
		Limits: opts.Limits, Sizes: callback.Sizes(opts.Bounds.Sizes), Bodies: bodies, Each: opts.Bounds.Bodies / 4,
		OAuth: opts.Timeouts.OAuth, Choice: opts.Timeouts.Choice, Call: opts.Timeouts.Call, Accept: opts.Timeouts.Accept, Tracer: opts.Tracer, Log: rt.log,
	})
	if b, ok := surface.(Binder); ok {
		b.Bind(rt)
	}
	return rt, nil
}

// peerConfig returns the options that concern tool servers.
func (rt *Runtime) peerConfig() peer.Config {
	o := &rt.opts
	return peer.Config{
		Toolsets: o.Toolsets, AllowOrigins: o.AllowOrigins, ToolsetOrigins: o.ToolsetOrigins, AllowNetworks: o.AllowNetworks, AllowPlainHTTP: o.AllowPlainHTTP,
		Secrets: o.Secrets, Headers: o.Headers, Concurrency: o.Concurrency, TLS: o.TLS, DialContext: o.DialContext, Local: o.Local,
		Connect: o.Timeouts.Connect, Notify: o.Timeouts.Notify, Discovery: o.Timeouts.Discovery, Retry: o.Timeouts.Retry, Log: rt.log,
		Spawn: func(task func(context.Context)) { rt.spawn(func() { task(rt.ctx) }) },
	}
}

func closeIfAny(l net.Listener) {
	if l != nil {
		l.Close()
	}
}

// spawn runs a task that [Runtime.Stop] waits for. It does nothing once Stop has begun to wait.
func (rt *Runtime) spawn(task func()) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if !rt.ended {
		rt.tasks.Go(task)
	}
}

// Done returns a channel that is closed when the runtime can do nothing more: it was stopped, or its flow has failed, in which
// case [Runtime.Err] says why. Stop must still be called.
func (rt *Runtime) Done() <-chan struct{} { return rt.flow.Done() }

// Err returns why the flow has failed, nil while it runs and after Stop.
func (rt *Runtime) Err() error { return rt.flow.Err() }

// Stop ends the runtime. It accepts nothing more: callbacks are answered 503, so that tools try again later. Accepted input is
// handled, and running answers and notifications are finished, for as long as ctx permits. Pending calls stay unresolved.
//
// With [Options].State a running answer is cut off instead, and the next process posts it again with the same webhook-id, even if
// the tool has just received it.
func (rt *Runtime) Stop(ctx context.Context) error {
	if rt.stopping.Swap(true) {
		select {
		case <-rt.stopped:
			return rt.stopErr
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer close(rt.stopped)
	close(rt.leaving)
	rt.mu.Lock()
	rt.detach()
	rt.mu.Unlock()

	if rt.agent != nil && rt.opts.State == nil {
		rt.agent.Stop() // otherwise an in-memory program waits for every model that is being asked
	}
	err := rt.flow.Stop(ctx)
	// The program has ended, drained or cut off, and its effects end with it. Performing an effect does not wait, so all that
	// were emitted are performed whatever ctx says. They start the tasks.
	rt.effects.Wait()
	rt.display.Stop()
	rt.mu.Lock()
	rt.ended = true
	for q := range rt.followers {
		q.Close()
	}
	rt.mu.Unlock()
	err = errors.Join(err, wait(ctx, &rt.tasks), wait(ctx, &rt.surfaced))
	if rt.endpoint != nil {
		err = errors.Join(err, rt.endpoint.Shutdown(ctx))
	}
	rt.cancel()
	rt.peers.Client.CloseIdle()
	rt.peers.Stop(ctx)
	rt.stopErr = err
	return err
}

// wait waits for a group for as long as ctx permits.
func wait(ctx context.Context, wg *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
