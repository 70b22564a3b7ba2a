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

// A Chooser answers the questions that the loop has: how many records to take,
// which input next, whether to cut a slice now. Nothing else in the engine may
// depend on time, map order, goroutines or randomness. A nil Chooser is greedy: it
// takes everything in order of arrival and cuts every slice that has news.
type Chooser interface {
	// Choose returns a number in [0, n). The engine asks only when n > 1.
	Choose(n int) int
}

// Settings are what a graph is built with. Zero fields have been replaced.
type Settings struct {
	Queue  int // records that may wait at a site
	Buffer int // elements that may wait at an output
	Choose Chooser
	Watch  Watcher            // of a graph with a Chooser; may be nil
	Record *Recording         // keeps the history of the run, if not nil
	Replay *Recording         // is the history of a driven graph, if not nil
	Whole  bool               // a driven graph explores also interleavings that nobody can tell apart
	Wrap   func(*Panic) error // makes the error by which a flow fails
	BadKey func(*BadKey) error

	Blocked   func(*Blocked) error // makes the error of a caller that waits in vain
	OnBlocked func(*Blocked)       // is told once of each operator that stops its location for long
	Codec     Codec                // of a graph whose history is kept outside
	Led       *Led                 // of a graph whose steps somebody else takes; see led.go
	Remote    Remote               // of a graph whose steps are taken elsewhere; see remote.go
}

// A Graph is a flow under construction, then a running one.
type Graph struct {
	set   Settings
	sites []*Site
	links links // between sites; see move.go
	idle  waiterPool

	mu       sync.Mutex
	begun    bool
	live     int // sites that have not finished
	err      error
	done     chan struct{} // closed when no site is live
	ctx      context.Context
	cancel   context.CancelCauseFunc
	release  func() bool // stops watching the caller's context
	steps    int         // of a driven graph, since something was sent
	sent     int         // records accepted by a driven graph
	shown    int         // outputs of a driven graph that were given something; see move_drive.go
	virtual  int64       // clock of a driven graph, in nanoseconds
	replayed int         // steps of a recording made so far
}

// New returns an empty graph.
func New(set Settings) *Graph { return &Graph{set: set, done: make(chan struct{})} }

// Simulate makes an empty graph one without goroutines and clock, which whoever waits for
// something drives, through choices or a recording. If whole, also schedules that nobody
// can tell apart are told apart.
func (g *Graph) Simulate(choose Chooser, watch Watcher, replay *Recording, whole bool) {
	g.set.Choose, g.set.Watch, g.set.Replay, g.set.Whole = choose, watch, replay, whole
}

// Lend makes an empty graph one whose history is kept outside: its steps are taken by
// who has its [Leader], or taken elsewhere.
func (g *Graph) Lend(codec Codec, led *Led, remote Remote) {
	g.set.Codec, g.set.Led, g.set.Remote = codec, led, remote
}

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
