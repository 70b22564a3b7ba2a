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
	"github.com/millrace/millrace/agentproto/internal/trail"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/inspect"
	"github.com/millrace/millrace/internal/edge"
)

// delivering is how what happened to a call is given to the program. Tests have it wrapped.
type delivering = func(ctx context.Context, key agentproto.CallKey, e agentproto.Event) error

// A running is a flow that runs: a [dataflow.App] or a [durable.App].
type running interface {
	inspect.App
	dataflow.Remembering
	Stop(ctx context.Context) error
}

// A Runtime makes tool calls. Its methods may be used by any number of goroutines.
//
// What decides about calls is its [agentproto.Program]; the rest carries messages
// between that, the tool servers and the user:
//
//	Call ──► program ──► dispatch ──► tool server
//	            ▲  │                       │
//	            │  └──► effects: results,  │
//	            │       surface, notices   │
//	            └────── callback endpoint ◄┘
type Runtime struct {
	opts      Options
	log       *slog.Logger
	client    *edge.Client
	sealer    Sealer
	surface   Surface
	program   *agentproto.Program
	deliverTo delivering
	flow      running
	kept      *durable.App[*Ports]  // flow, if it is kept
	agent     *conversation.Agent   // nil without a model
	threads   *conversation.Program // nil without a model
	moves     *moves
	publicURL string
	// pathPrefix is the path of publicURL.
	pathPrefix string
	// addressed reports whether a request names this endpoint as its host. Nil is not to be asked.
	addressed func(*http.Request) bool

	servers []*server
	byID    map[serverID]*server
	origins map[string]bool // allowed besides each server's own
	atStart *offer          // what was found then
	offers  *offers

	intake     *intake
	turns      *turns
	bodies     *edge.Bytes // of callbacks that are in memory
	refusals   refusals
	views      *views
	subscribed *subscribed
	replays    *replays
	attempts   *attempts
	prompts    prompts
	trail      *trail.Trail
	shown      *queue[func(context.Context, Surface)]
	counters   counters
	others     counters // of no server

	ctx      context.Context // ends when everything has to
	cancel   context.CancelFunc
	endpoint *edge.Server  // nil if it is External
	running  chan struct{} // closed when the program has started
	stopping atomic.Bool
	leaving  chan struct{} // closed when Stop begins
	stopped  chan struct{} // closed when Stop is done
	stopErr  error
	effects  sync.WaitGroup // the goroutine that performs effects
	surfaced sync.WaitGroup // the goroutine that calls the surface

	memory *memory

	mu        sync.Mutex  // guards what follows
	detach    func() bool // from the context of Start
	followers map[*queue[*agentproto.Resolution]]bool
	read      recent[agentproto.CallKey, bool] // of large results, that the program was told
	known     recent[agentproto.CallKey, bool] // calls that this process has made, or has asked the flow for
	ended     bool
	tasks     sync.WaitGroup // answers and notifications under way
}

// Start starts a runtime: it listens for callbacks and asks the tool servers what
// they offer. A tool server that cannot be asked is a [Problem] and not an error.
// The runtime ends with [Runtime.Stop], or less gently with ctx.
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

// manyDispatches is how many dispatches the program may have under way. It is
// large, as each waits for its turn at its own tool server.
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
		rt.stopCommands(ctx)
		closeIfAny(listener)
		return nil, fmt.Errorf("host: %w", err)
	}
	if rt.atStart = rt.discover(ctx, ctx, nil); ctx.Err() != nil {
		rt.stopCommands(ctx)
		closeIfAny(listener)
		return nil, fmt.Errorf("host: discovery: %w", context.Cause(ctx))
	}
	rt.ctx, rt.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := rt.run(ctx, wrap); err != nil {
		rt.cancel()
		rt.stopCommands(ctx)
		closeIfAny(listener)
		return nil, fmt.Errorf("host: %w", err)
	}
	close(rt.running)
	rt.effects.Go(rt.perform)
	rt.surfaced.Go(rt.showAll)
	if listener != nil {
		rt.serve(listener)
	}
	rt.mu.Lock()
	rt.detach = context.AfterFunc(ctx, func() { rt.Stop(ctx) })
	rt.mu.Unlock()
	return rt, nil
}

// configure makes a runtime of its options. Nothing runs yet.
func configure(opts Options) (*Runtime, error) {
	bodies := edge.NewBytes(opts.Bounds.Bodies)
	servers, err := newServers(opts, bodies)
	if err != nil {
		return nil, err
	}
	rt := &Runtime{
		opts: opts, log: opts.Logger, sealer: opts.Sealer, surface: opts.Surface,
		servers: servers, byID: map[serverID]*server{}, origins: map[string]bool{},
		offers: newOffers(opts.Bounds.Sessions), intake: newIntake(opts.Bounds), turns: newTurns(), bodies: bodies, views: newViews(opts.Bounds), subscribed: newSubscribed(opts.Bounds.Subscriptions), replays: newReplays(),
		attempts: newAttempts(), trail: trail.New(), memory: newMemory(opts.Bounds.Memory), shown: newQueue[func(context.Context, Surface)](),
		running: make(chan struct{}), stopped: make(chan struct{}), leaving: make(chan struct{}), followers: map[*queue[*agentproto.Resolution]]bool{},
	}
	if rt.moves, err = newMoves(opts.MigrationKey); err != nil {
		return nil, err
	}
	for _, s := range servers {
		rt.byID[s.id] = s
	}
	for _, raw := range opts.AllowOrigins {
		origin, err := serverOf(raw)
		if err != nil {
			return nil, fmt.Errorf("host: allowed origin %s: %w", withoutPassword(raw), err)
		}
		rt.origins[origin] = true
	}
	if rt.sealer == nil {
		if rt.sealer, err = NewSealer(); err != nil {
			return nil, err
		}
	}
	if rt.surface == nil {
		rt.surface = NewTerminal(os.Stdin, os.Stderr)
	}
	if b, ok := rt.surface.(Binder); ok {
		b.Bind(rt)
	}
	return rt, nil
}

func closeIfAny(l net.Listener) {
	if l != nil {
		l.Close()
	}
}

// spawn runs a task that [Runtime.Stop] waits for. After that has begun waiting it
// does nothing.
func (rt *Runtime) spawn(task func()) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if !rt.ended {
		rt.tasks.Go(task)
	}
}

// Done is closed when the runtime can do nothing more: it was stopped, or its flow has
// failed, of which [Runtime.Err] says why. Stop is still to be called then.
func (rt *Runtime) Done() <-chan struct{} { return rt.flow.Done() }

// Err returns why the flow has failed, nil while it runs and after Stop.
func (rt *Runtime) Err() error { return rt.flow.Err() }

// Stop ends the runtime. Nothing is accepted any more: callbacks are answered 503,
// so that tools try again later. What was accepted is handled, and answers and
// notifications under way are finished, for as long as ctx permits. Calls that are
// pending stay unresolved.
//
// Where calls are kept, an answer under way is cut off instead, and the next process posts it
// again with the same webhook-id, also one that the tool has taken a moment before.
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
		rt.agent.Stop() // a program that is not kept waits for every model that is being asked
	}
	err := rt.flow.Stop(ctx)
	// The program has ended, dry or cut off, and its effects end with it. None of them
	// waits, so what came out is performed whatever ctx says; they are the source of tasks.
	rt.effects.Wait()
	rt.shown.close()
	rt.mu.Lock()
	rt.ended = true
	for q := range rt.followers {
		q.close()
	}
	rt.mu.Unlock()
	err = errors.Join(err, wait(ctx, &rt.tasks), wait(ctx, &rt.surfaced))
	if rt.endpoint != nil {
		err = errors.Join(err, rt.endpoint.Shutdown(ctx))
	}
	rt.cancel()
	rt.client.CloseIdle()
	rt.stopCommands(ctx)
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
