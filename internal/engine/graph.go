// Package engine is the one engine under every flow. It compiles a graph of operators to closures that push borrowed batches. At
// each location it makes steps: a step takes records from the location's history, pushes them, cuts the slices and publishes what
// came out.
//
// It is generic in data and knows nothing of bounds, order or retries; those are promises of the typed collections that wrap its
// nodes.
//
// # Shape
//
//	Graph ── Location ── inputs → nodes ── operators → nodes → outputs
//	                                  └── regions (slices, and one run at the start)
//
// A [Location] is one instance of a location of a program. The holder of its run token makes its steps alone, so nothing inside
// takes a lock. A [Region] is the part of a location that runs once over finite data: a slice, each time it is cut, or what
// depends on constants, when the flow starts. A step is made from a [Plan], which is data, and plans are made by the [Driver] of
// the graph. Start reading at Location and at step.go.
//
// # Layers
//
// This package contains the graph, the step and the interfaces of the layers above it. Its folders
// are layers, and imports go down, or to the right in a line. The page doc/architecture.md shows the layers of the module.
//
//	lookup                                 what a location remembers of a key
//	live  simulate  logdriven  identity    the drivers: production, simulation and replay, a log; what it calls operators
//	machines  windows                      operators that run state machines; those of event time
//	operators  port  claims                what a flow is built from; inputs, outputs and exchanges; checks of what is claimed
//	state                                  what operators remember
//	engine
//	callsite  codec  mark  token           who built what; encoding of records; event time; the run token and its waiters
//
// No driver knows an operator or a port: it uses the interfaces [Input], [Output] and
// [TimerQueue]. The files inline.go list what has to be inlined into programs.
package engine

import (
	"context"
	"sync"

	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/token"
)

// NumLocations returns how many locations the graph has.
func (g *Graph) NumLocations() int { return len(g.Locations) }

// Ops returns the operators of location number i so far, in order of construction.
func (g *Graph) Ops(i int) []*Op { return g.Locations[i].Ops }

// Settings are the settings with which a graph is built. Defaults have replaced zero fields.
type Settings struct {
	Queue    int                // records that may wait at a location
	Buffer   int                // elements that may wait at an output
	Record   *Recording         // in memory, which is then also the Recorder; or nil
	Recorder StepRecorder       // gets the steps of a graph that runs in production, if not nil
	Count    bool               // count what enters each operator
	Wrap     func(*Panic) error // makes the error with which a flow fails
	BadKey   func(*BadKey) error

	Blocked   func(*Blocked) error                     // makes the error of a caller that waits in vain
	OnBlocked func(*Blocked)                           // is called once for each operator that stops its location for long
	Pair      func(k any) (first, second any, ok bool) // the parts of a pair, which is placed like one of them; see affinity.go
	Report    func(*Status) any                        // makes the public form of a location's status

	// Settled by the driver of the graph before anything is added to the graph:

	Watch  Watcher                  // receives what the graph shows, if not nil
	Steady bool                     // keys are divided in the same way in every process
	Codec  codec.Codec              // of a graph whose history is kept outside
	Answer func(codec.Record) error // of a graph whose steps follow a log; the record has an operator's index
	Remote Remote                   // of a graph whose steps are made elsewhere
	Failed bool                     // a failed call is a record of the history, and does not end the flow
	Parts  int                      // partitions of a location whose keys are divided; 0 is 1
	Part   int                      // the partition, among those, whose steps are made here
	Check  *check                   // of a graph under test; see state.go

	Batches bool // single entries are pushed as batches; see PushBatches

	Turns Turns // of a simulated graph: schedules callers, and records what a step touches; see observe.go
}

// A Graph is a flow under construction, then a running one.
type Graph struct {
	Settings    Settings
	Driver      Driver
	Bounded     bool // an output over its bound keeps its location from running
	Locations   []*Location
	Edges       edges // between locations; see edge.go
	Waiters     token.WaiterPool
	RepeatsSeen []*Op // where it can be observed that a record came more than once; see SeesRepeats

	mu      sync.Mutex
	begun   bool
	live    int // locations that have not finished
	err     error
	done    chan struct{} // closed when no location is live
	Ctx     context.Context
	cancel  context.CancelCauseFunc
	release func() bool // stops watching the caller's context
}

// New returns an empty graph. It needs a driver before it is started.
func New(set Settings) *Graph { return &Graph{Settings: set, done: make(chan struct{})} }

// Kept reports whether the history of the graph is kept outside.
func (g *Graph) Kept() bool { return g.Settings.Codec != nil }

// Begun reports whether the graph was started, so that it can no longer be changed.
func (g *Graph) Begun() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.begun
}

// Start compiles the graph and runs its first step. It reports false if the graph
// was started before.
func (g *Graph) Start(ctx context.Context) bool {
	g.mu.Lock()
	if g.begun {
		g.mu.Unlock()
		return false
	}
	g.begun = true
	g.live = len(g.Locations)
	g.Ctx, g.cancel = context.WithCancelCause(ctx)
	g.mu.Unlock()
	if g.Settings.Recorder != nil {
		g.Settings.Recorder.Begin(g)
	}
	for _, s := range g.Locations {
		s.compile()
	}
	g.settleEdges()
	if g.Settings.Turns != nil {
		g.settleOrder()
	}
	g.Bounded = g.Driver.Bounded()
	g.Driver.Prepare(g)
	g.mu.Lock()
	g.release = context.AfterFunc(ctx, func() { g.Fail(context.Cause(ctx)) })
	if g.live == 0 {
		g.finished()
	}
	g.mu.Unlock()
	for _, s := range g.Locations {
		s.start()
	}
	return true
}

// Done is closed when every location has finished or the graph has failed.
func (g *Graph) Done() <-chan struct{} { return g.done }

// Err returns why the graph failed, or nil.
func (g *Graph) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// Wait waits until the graph has ended and returns why.
func (g *Graph) Wait() error { return g.Ended(context.Background()) }

// Ended waits until the graph has ended and returns why. If ctx ends first, Ended ends the graph.
func (g *Graph) Ended(ctx context.Context) error { return g.Driver.Ended(ctx, g) }

// EndOrFail waits until the graph has ended by itself. If ctx ends first, it ends the graph.
func (g *Graph) EndOrFail(ctx context.Context) error {
	select {
	case <-g.done:
	case <-ctx.Done():
		g.Fail(g.Unfinished(context.Cause(ctx)))
		<-g.done
	}
	return g.Err()
}

// Stop closes every input and drops pending timers, so that the graph finishes once everything accepted has been handled.
func (g *Graph) Stop() {
	if turns := g.Settings.Turns; turns != nil && turns.Turn(Turn{Action: "stop"}) == nil {
		turns.Touch(Everything, Writes)
	}
	for _, s := range g.Locations {
		s.stop()
	}
}

// Fail ends the graph at once with err. Only the first call counts.
func (g *Graph) Fail(err error) {
	g.mu.Lock()
	if g.err != nil || g.begun && g.live == 0 {
		g.mu.Unlock()
		return
	}
	g.err = err
	g.live = 0
	g.mu.Unlock()
	for _, s := range g.Locations {
		s.abort(err)
	}
	g.mu.Lock()
	g.finished()
	g.mu.Unlock()
}

// locationFinished is called once by each location that ran to its end.
func (g *Graph) locationFinished() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return
	}
	if g.live--; g.live == 0 {
		g.finished()
	}
}

// Abandon releases the context with which the graph was started. It is for a graph without goroutines that is no longer needed,
// whether or not it has ended.
func (g *Graph) Abandon() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.letGo()
}

// letGo is called with mu held.
func (g *Graph) letGo() {
	if g.cancel != nil {
		g.cancel(g.err)
	}
	if g.release != nil {
		g.release()
	}
}

// finished is called with mu held.
func (g *Graph) finished() {
	g.letGo()
	if g.Settings.Record != nil {
		g.Settings.Record.end(g.err)
	}
	close(g.done)
}

// Location returns the name of location number i.
func (g *Graph) Location(i int) string { return g.Locations[i].Name }
