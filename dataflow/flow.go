package dataflow

import (
	"cmp"
	"context"
	"fmt"
	"reflect"

	"github.com/millrace/millrace/internal/engine"
)

// A Flow is a program under construction: locations, collections at them, and the
// operators between them. It is built by one goroutine and runs once. Nothing can be
// added after it has been started.
type Flow struct {
	graph     // the engine's graph
	locations []*engine.Location
	byTag     map[reflect.Type]*engine.Location

	members map[reflect.Type][]*engine.Location
}

// Options are the optional settings of a [Flow]. The zero value is ready to use.
type Options struct {
	// Queue is how many records may wait at a location before an input blocks. Zero means
	// 4,096.
	Queue int

	// Buffer is how many elements may wait at an output before its location stops running
	// until they are read. Zero means 4,096.
	Buffer int

	// Record, if not nil, keeps the history of the run, so that package sim can replay
	// it. It holds every incoming record in memory; for a run without an end, use
	// Recorder.
	Record *Recording

	// Recorder, if not nil, writes the history of the run as it is made; package
	// recordings makes one. Only one of Record and Recorder may be set.
	Recorder *Recorder

	// Count makes each operator count the elements that it takes, for [App.Status]. It
	// costs one or two nanoseconds for each operator and each element that is sent alone,
	// and nothing measurable for elements in batches.
	Count bool

	// OnBlocked is called once for each output or operator that has kept its location
	// from running for a second, on a goroutine of its own. It must not block. If it is
	// nil, the error is printed with package log; slog.SetDefault redirects that.
	OnBlocked func(*BlockedError)
}

// New returns an empty flow with default options.
func New() *Flow { return NewWithOptions(Options{}) }

// NewWithOptions returns an empty flow.
func NewWithOptions(opts Options) *Flow {
	if opts.Queue < 0 || opts.Buffer < 0 {
		panic(fmt.Sprintf("dataflow: NewWithOptions: Queue is %d and Buffer is %d: sizes must not be negative", opts.Queue, opts.Buffer))
	}
	set := engine.Settings{
		Count:  opts.Count,
		Queue:  cmp.Or(opts.Queue, 4096),
		Buffer: cmp.Or(opts.Buffer, 4096),
		Wrap:   stepError,
		BadKey: keyError, Pair: partsOf,

		Blocked:   func(b *engine.Blocked) error { return blockedError(b) },
		OnBlocked: opts.told,
		Report:    func(s *engine.Status) any { return locationStatus(s) },
	}
	if opts.Record != nil {
		set.Record = historyOf(opts.Record)
		set.Recorder = set.Record
		set.Steady = true // another process may repeat the steps
	}
	if opts.Recorder != nil {
		set.Recorder, set.Steady = recorderOf(opts), true
	}
	return &Flow{graph: newGraph(set), byTag: make(map[reflect.Type]*engine.Location), members: make(map[reflect.Type][]*engine.Location)}
}

// An App is a flow that runs.
type App struct{ flow *Flow }

// Start starts the flow and returns at once. The flow ends when ctx ends, when [App.Stop]
// is called, when a function given to an operator panics, or by itself when all inputs
// are closed and nothing more can happen.
//
// Nothing runs before Start: elements sent before wait in the inputs' queue.
func Start(ctx context.Context, f *Flow) (*App, error) {
	g := graphOf(f)
	if ctx == nil {
		engine.NilContext("dataflow.Start")
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if r, ok := g.Settings.Recorder.(engine.FileRecorder); ok {
		if err := r.Check(g); err != nil {
			return nil, fmt.Errorf("dataflow: Start: the flow cannot be recorded in a file: %w", err)
		}
	}
	if !g.Start(ctx) {
		return nil, ErrStarted
	}
	return &App{f}, nil
}

// Run starts the flow and returns when it has ended. It returns nil if all inputs were
// closed and everything was handled, else the flow's error. A flow with an output ends
// only if another goroutine reads the output.
func Run(ctx context.Context, f *Flow) error {
	app, err := Start(ctx, f)
	if err != nil {
		return err
	}
	return app.Wait()
}

// Stop closes all inputs, waits until everything accepted has been handled and its
// outputs are released, and ends the flow. Timers that have not fired never will. Stop
// waits for asynchronous calls that have begun.
//
// If ctx ends first, Stop ends the flow at once and returns the reason: a [BlockedError]
// if an unread output or an asynchronous call kept the flow from ending. It is safe to
// call Stop more than once.
func (a *App) Stop(ctx context.Context) error {
	g := a.graph()
	if ctx == nil {
		engine.NilContext("dataflow.App.Stop")
	}
	g.Stop()
	return g.Ended(ctx)
}

// Wait waits until the flow has ended and returns [App.Err].
func (a *App) Wait() error { return a.graph().Wait() }

// Done returns a channel that is closed when the flow has ended.
func (a *App) Done() <-chan struct{} { return a.graph().Done() }

// Err returns nil while the flow runs and if it ended by itself or by Stop, a
// [*StepError] if a function panicked, and the context's cause if that ended it.
func (a *App) Err() error { return a.graph().Err() }

// graph returns the engine's graph of the flow.
func (a *App) graph() *engine.Graph {
	if a == nil || a.flow == nil {
		engine.Unmade("dataflow.App", "apps come from dataflow.Start")
	}
	return graphOf(a.flow)
}

// Here is the location of a flow made by [Local].
type Here struct{ Process }

// Local builds a flow with one location, closes its inputs, and runs it to its end. It is
// meant for examples, tests and programs that fit in one function. It panics if the flow
// fails.
func Local(build func(at Here)) {
	engine.Given("dataflow.Local", build)
	f := New()
	build(At[Here](f))
	for _, s := range f.locations {
		s.CloseInputs()
	}
	if err := Run(context.Background(), f); err != nil {
		panic(err)
	}
}
