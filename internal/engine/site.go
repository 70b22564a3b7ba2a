package engine

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Site is one instance of a location: its operators and the loop that runs them.
//
// It maintains, whenever mu is free:
//
//  1. the token is held if and only if somebody runs the loop, or it waits for a
//     reader because an output is over its bound (parked); it is news if something
//     was left since its holder looked,
//  2. queued is the number of records in the inlets' buffers and order lists them
//     in the order in which they were accepted,
//  3. a waiter is in the list waiters, or has lead set, or will look for itself.
//
// Everything below "held by the token" is touched only by who holds it.
type Site struct {
	g    *Graph
	name string

	// fixed once compiled
	ops       []*Op
	making    *Op // the operator being built; see graph.go
	binds     []func()
	starts    Region    // what hangs on constants, run once
	regions   []*Region // slices, in topological order
	outlets   []output  // in order of construction
	inputs    []input   // by operator; nil where an operator is none
	outputs   []output  // by operator; nil where an operator is none
	timers    []timing  // in order of construction
	parts     []*part
	number    int // among the sites of the graph
	divided   bool
	recording *Recording            // of the graph, if it is recorded
	planned   bool                  // senders that run the site make a plan; see stepOne
	ends      bool                  // a step has slices to cut
	alarm     func(after, at int64) // is told of each timer that is set, if not nil

	token  gate
	moving moving // its links to other sites; see move.go

	_        apart
	mu       sync.Mutex
	started  bool
	parked   bool
	doors    []*door
	closing  bool // no input will come: all inlets closed, or stopping
	stopping bool // pending timers are dropped
	finished bool
	err      error
	open     int // inlets not closed
	queued   int
	order    []Take
	touched  []input
	waiters  waiterList
	senders  int // waiters that wait for room

	parkedAt time.Time     // when it parked last
	vacant   bool          // it has ended, and nobody holds the token
	asked    chan struct{} // closed when the holder of the token has copied its figures; see status.go
	seen     *figures      // the last copy

	stalled atomic.Int32  // outputs and calls over their bound
	stalls  atomic.Uint64 // how often one more of them was
	watched atomic.Bool   // a timer looks whether that lasts; see blocked.go
	told    map[*Op]bool  // of which somebody was told; of the watch
	calls   atomic.Int64  // asynchronous calls begun or waiting, without a recorded answer

	// held by the token
	_         apart
	at        int32      // index of the operator that is running user code
	ports     []port     // ports to which the step gave something
	later     []delivery // links, cycles and calls to which it did
	now       int64      // clock of this step; 0 when not read yet
	read      int64      // what it was when the last step ended
	rearm     bool       // a timer was set in this step
	armedFor  int64      // deadline for which the timer was armed last
	completed bool       // the step got to its end
	steps     uint64     // so far
	more      int        // how many more records they took than there were steps
}

// apart keeps what is written by one goroutine off the cache line of what is written by
// another, since each such line goes from processor to processor, which takes longer than
// the step that needs it.
type apart [64]byte

// none is the deadline of a timer that is not armed.
const none = int64(1<<63 - 1)

// NewSite adds a location to the graph.
func (g *Graph) NewSite(name string) *Site {
	if g.Begun() {
		Misuse("dataflow.At", "the flow has been started, nothing can be added to it")
	}
	s := &Site{g: g, name: name, number: len(g.sites), armedFor: none}
	s.starts.site = s
	g.sites = append(g.sites, s)
	return s
}

// Divide makes the site one whose keys may be divided between partitions.
func (s *Site) Divide() { s.divided = true }

// Partitioned reports whether the keys of the site may be divided.
func (s *Site) Partitioned() bool { return s.divided }

// Divided reports whether the keys of location number i may be divided.
func (g *Graph) Divided(i int) bool { return g.sites[i].divided }

// Name returns the name of the location.
func (s *Site) Name() string { return s.name }

// Top returns the head of a node at the top level.
func (s *Site) Top() Head { return Head{site: s, part: s.newPart()} }

// Constant returns the head of a node that is complete when the flow starts.
func (s *Site) Constant() Head { return Head{site: s, region: &s.starts, part: s.newPart()} }

// Ops returns the operators in order of construction.
func (s *Site) Ops() []*Op { return s.ops }

// compiled calls f when the graph is compiled.
func (s *Site) compiled(f func()) { s.binds = append(s.binds, f) }

func (s *Site) compile() {
	for _, f := range slices.Backward(s.binds) { // from the sinks, so that each knows who follows
		f()
	}
	s.binds = nil
	s.regions = topological(s.regions)
	for _, r := range s.regions {
		if r.ins == 0 {
			Misuse("slice.At", "%s has no input: nothing would ever run it", r)
		}
	}
	s.orderTimers()
	s.recording = s.g.set.Record
	s.planned = s.recording != nil || stepsArePlanned
	s.ends = len(s.regions) > 0
	if w := s.g.set.Watch; w != nil {
		for _, r := range s.regions {
			r.observe(w)
		}
	}
}

// start hands the site, which has been compiled, to the driver.
func (s *Site) start() {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.started = true
	s.token.open()
	s.closing = s.closing || s.open == 0
	s.mu.Unlock()
	s.g.driver.start(s)
}

// stop closes every inlet and drops pending timers.
func (s *Site) stop() {
	s.mu.Lock()
	s.closing, s.stopping = true, true
	s.waiters.wakeAll()
	s.refuseAll()
	if s.token.notify() {
		s.g.driver.settle(s, 1)
		return
	}
	s.mu.Unlock()
}

// refuseAll sends every sender to look under mu, where it is refused.
func (s *Site) refuseAll() {
	for _, d := range s.doors {
		d.shut.Store(true)
	}
}

// closeInlet is called with mu held when an inlet has been closed.
func (s *Site) closeInlet() {
	s.open--
	if s.open > 0 || s.closing || !s.started { // before the start an input may still be added
		return
	}
	s.closing = true
	if s.token.notify() {
		s.g.driver.settle(s, 1)
		s.mu.Lock()
	}
}

// abort ends the site at once.
func (s *Site) abort(err error) {
	s.mu.Lock()
	if s.finished {
		s.mu.Unlock()
		return
	}
	s.err, s.closing, s.finished = err, true, true
	s.vacant = s.parked || !s.started || s.token.take()
	s.token.shut()
	s.g.driver.retire(s)
	s.waiters.wakeAll()
	s.mu.Unlock()
	for _, out := range s.outlets {
		out.end(err)
	}
}

// quiet is called with mu held by the holder of the token. It finishes the site if
// nothing can happen any more.
func (s *Site) quiet() {
	if !s.closing || s.finished || s.calls.Load() > 0 || !s.mayEnd() {
		return
	}
	s.finished, s.vacant = true, true
	s.token.shut()
	s.g.driver.retire(s)
	s.waiters.wakeAll()
	s.mu.Unlock()
	for _, out := range s.outlets {
		out.end(nil)
	}
	s.g.siteFinished()
	s.mu.Lock()
}

// CloseInputs closes every input of the site before the start.
func (s *Site) CloseInputs() {
	s.mu.Lock()
	s.closing = true
	s.refuseAll()
	s.mu.Unlock()
}

// resume is called by a reader when an output is below its bound again.
func (s *Site) resume() {
	if s.stalled.Add(-1) > 0 {
		return
	}
	s.mu.Lock()
	if !s.parked {
		s.mu.Unlock()
		return
	}
	s.parked = false
	s.g.driver.handOver(s)
}
