// Package engine is the one engine under every flow: a graph of operators compiled
// to closures that push borrowed batches, and for each location a loop that takes
// records from its history, pushes them, cuts its slices and releases what came out.
//
// It is generic in data and knows nothing of bounds, order or retries; those are
// promises of the typed collections that wrap its nodes.
//
// # Shape
//
//	Graph ── Site ── inlets → nodes ── operators → nodes → outlets
//	                              └── regions (slices, and one run at the start)
//
// A [Site] is one instance of a location. Whoever holds its run token runs the
// loop alone, so nothing inside takes a lock. A [Region] is the part of a site that
// runs once over finite data: a slice, each time it is cut, or what hangs on
// constants, when the flow starts.
package engine

import (
	"context"
	"sync"
)

// Settings are what a graph is built with. Zero fields have been replaced.
type Settings struct {
	Queue  int                // records that may wait at a site
	Buffer int                // elements that may wait at an output
	Record *Recording         // keeps the history of the run, if not nil
	Count  bool               // counts what enters each operator
	Wrap   func(*Panic) error // makes the error by which a flow fails
	BadKey func(*BadKey) error

	Blocked   func(*Blocked) error // makes the error of a caller that waits in vain
	OnBlocked func(*Blocked)       // is told once of each operator that stops its location for long
	Report    func(*Status) any    // makes the public form of a location's status

	// What the driver of the graph has settled, before anything was added to it.

	Watch  Watcher                   // sees what the graph shows, if not nil
	Steady bool                      // keys are divided in the same way in every process
	Codec  Codec                     // of a graph whose history is kept outside
	Answer func(record []byte) error // of a graph whose steps follow a log
	Remote Remote                    // of a graph whose steps are made elsewhere
	Check  *check                    // of a graph that is tested; see state_check.go

	Batches bool // single entries are pushed as batches; see PushBatches
}

// A Graph is a flow under construction, then a running one.
type Graph struct {
	set     Settings
	driver  driver
	bounded bool // an output over its bound keeps its location from running
	sites   []*Site
	links   links // between sites; see move.go
	idle    waiterPool
	tell    []*part // where somebody can tell that a record came more than once; see lanes_records.go

	mu      sync.Mutex
	begun   bool
	live    int // sites that have not finished
	err     error
	done    chan struct{} // closed when no site is live
	ctx     context.Context
	cancel  context.CancelCauseFunc
	release func() bool // stops watching the caller's context
}

// New returns an empty graph. It needs a driver before it is started.
func New(set Settings) *Graph { return &Graph{set: set, done: make(chan struct{})} }

// Kept reports whether the history of the graph is kept outside.
func (g *Graph) Kept() bool { return g.set.Codec != nil }

// Begun reports whether the graph was started, so that building is over.
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
	g.live = len(g.sites)
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	g.mu.Unlock()
	for _, s := range g.sites {
		s.compile()
	}
	g.settleLinks()
	g.bounded = g.driver.bounded()
	g.driver.prepare(g)
	g.mu.Lock()
	g.release = context.AfterFunc(ctx, func() { g.Fail(context.Cause(ctx)) })
	if g.live == 0 {
		g.finished()
	}
	g.mu.Unlock()
	for _, s := range g.sites {
		s.start()
	}
	return true
}

// Done is closed when every site has finished or the graph has failed.
func (g *Graph) Done() <-chan struct{} { return g.done }

// Err returns why the graph failed, or nil.
func (g *Graph) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// Wait waits until the graph has ended and returns why.
func (g *Graph) Wait() error { return g.Ended(context.Background()) }

// Ended waits until the graph has ended and returns why. If ctx ends first it ends the graph.
func (g *Graph) Ended(ctx context.Context) error { return g.driver.ended(ctx, g) }

// endOrFail waits until the graph has ended by itself, or ends it when ctx ends.
func (g *Graph) endOrFail(ctx context.Context) error {
	select {
	case <-g.done:
	case <-ctx.Done():
		g.Fail(g.Unfinished(context.Cause(ctx)))
		<-g.done
	}
	return g.Err()
}

// Stop closes every input and drops pending timers, so that the graph finishes
// when everything accepted has been handled.
func (g *Graph) Stop() {
	for _, s := range g.sites {
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
	for _, s := range g.sites {
		s.abort(err)
	}
	g.mu.Lock()
	g.finished()
	g.mu.Unlock()
}

// siteFinished is called once by each site that ran to its end.
func (g *Graph) siteFinished() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return
	}
	if g.live--; g.live == 0 {
		g.finished()
	}
}

// finished is called with mu held.
func (g *Graph) finished() {
	if g.cancel != nil {
		g.cancel(g.err)
	}
	if g.release != nil {
		g.release()
	}
	close(g.done)
}
