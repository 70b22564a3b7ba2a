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
	outlets   []outlet
	timers    []timing // in order of construction
	parts     []*part
	number    int // among the sites of the graph
	divided   bool
	replayers []replayInlet
	recording *Recording       // of the graph, if it is recorded
	ends      bool             // a step has more to do at its end than to release
	alarms    []alarm          // of a driven site: the timers that were set
	takers    map[int32]taker  // of a led site: what records are for, by operator
	feeds     map[int32]feeder // of a remote site: its outputs, by operator

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
	order    []stretch
	touched  []inlet
	waiters  waiterList
	senders  int         // waiters that wait for room
	due      bool        // a timer fired
	timer    *time.Timer // armed for the deadline armed
	armed    int64
	awaits   bool          // it is armed for a timer without which the site does not end
	hand     chan struct{} // wakes the background goroutine to take the token

	stalled atomic.Int32  // outputs and calls over their bound
	stalls  atomic.Uint64 // how often one more of them was
	watched atomic.Bool   // a timer looks whether that lasts; see blocked.go
	told    map[*Op]bool  // of which somebody was told; of the watch
	calls   atomic.Int64  // asynchronous calls begun or waiting, without a recorded answer

	// held by the token
	_         apart
	at        int32    // index of the operator that is running user code
	ports     []port   // ports to which the step gave something
	later     []outlet // links, cycles and calls to which it did
	taken     []stretch
	inrun     []inlet
	epoch     time.Time
	now       int64        // clock of this step; 0 when not read yet
	rearm     bool         // a timer was set in this step
	armedFor  int64        // deadline for which the timer was armed last
	timing    bool         // there is a timer queue
	completed bool         // the step got to its end
	recorded  recordedStep // of this step, if the graph is recorded
}

// A stretch is a run of records of one inlet in the order of acceptance.
type stretch struct {
	in inlet
	n  int
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
	s := &Site{
		g: g, name: name, number: len(g.sites), armed: none, armedFor: none, hand: make(chan struct{}, 1),
		takers: make(map[int32]taker), feeds: make(map[int32]feeder),
	}
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
	s.timing = len(s.timers) > 0
	s.orderTimers()
	s.recording = s.g.set.Record
	s.ends = len(s.regions) > 0 || s.recording != nil
	s.divide()
}

// start runs what hangs on constants, then what was sent before the start.
func (s *Site) start() {
	s.epoch = time.Now()
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.started = true
	s.token.open()
	s.closing = s.closing || s.open == 0
	s.mu.Unlock()
	if s.g.led() || s.g.remote() != nil { // nobody gets the token
		return
	}
	if s.g.driven() { // who drives it has the token for ever
		s.drive(s.starts.run)
		return
	}
	go s.background()
	s.first()
	s.mu.Lock()
	s.settle(1)
}

// first is the first step.
func (s *Site) first() {
	defer s.guard()
	s.starts.run()
	s.finish()
}

// background takes the token over when nobody else can.
func (s *Site) background() {
	for {
		select {
		case <-s.g.ctx.Done():
			return
		case <-s.hand:
			s.mu.Lock()
			s.settle(-1)
		}
	}
}

// stop closes every inlet and drops pending timers.
func (s *Site) stop() {
	s.mu.Lock()
	s.closing, s.stopping = true, true
	s.waiters.wakeAll()
	s.refuseAll()
	if s.token.notify() {
		s.settle(1)
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
		s.settle(1)
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
	s.token.shut()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.waiters.wakeAll()
	s.mu.Unlock()
	for _, out := range s.outlets {
		out.end(err)
	}
}

// quiet is called with mu held by the holder of the token. It finishes the site if
// nothing can happen any more.
func (s *Site) quiet() {
	if !s.closing || s.finished || s.calls.Load() > 0 || !s.stopping && s.armed != none && s.awaits || !s.mayEnd() {
		return
	}
	s.finished = true
	s.token.shut()
	if s.timer != nil {
		s.timer.Stop()
	}
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
