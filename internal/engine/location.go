package engine

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/engine/token"
)

// A Place is what a location of a program holds: where collections are made.
type Place struct {
	Type     reflect.Type // of the location
	Location *Location
	Region   *Region // of a slice, else nil
}

// PlaceOf returns the place that a location of type at holds. It panics unless the
// location was made as one of this type: a struct that embeds a location converts to
// another one that does, so the type alone proves nothing.
func PlaceOf(held any, at reflect.Type, op string) Place {
	p, ok := held.(*Place)
	switch {
	case !ok:
		Misuse(op, "the location is a %v: give it as the type that dataflow.At was called with", at)
	case p.Location == nil:
		Misuse(op, "the location is a zero value: make it with dataflow.At")
	case p.Type != at:
		Misuse(op, "the location is a %v that was made as a %v: call dataflow.At for each location", at, p.Type)
	}
	return *p
}

// Outside returns the location of a place that is in no slice, for what has to be outside
// as why says.
func (p Place) Outside(op, why string) *Location {
	if p.Region != nil {
		Misuse(op, why, p.Region)
	}
	return p.Location
}

// Input returns the location at which an input may be made.
func (p Place) Input(op string) *Location {
	return p.Outside(op, "an input comes from outside and cannot be inside %s")
}

// Destination returns the location to which something may be sent.
func (p Place) Destination(op string) *Location {
	return p.Outside(op, "what is sent comes later and cannot be inside %s: send it to the location and let it in from there")
}

// A Location is one instance of a location: its operators and the loop that runs them.
//
// It maintains, whenever mu is free:
//
//  1. the token is held if and only if somebody runs the loop, or it waits for a
//     reader because an output is over its bound (parked); it is news if something
//     was left since its holder looked,
//  2. queued is the number of records in the inputs' buffers and order lists them
//     in the order in which they were accepted,
//  3. a waiter is in the list waiters, or has the token, or will look for itself.
//
// Everything below "held by the token" is touched only by who holds it.
type Location struct {
	Graph *Graph
	Name  string

	// fixed once compiled
	Ops            []*Op
	Making         *Op            // the operator being built; see operator.go
	labels         map[string]*Op // operators with names
	binds          []func()
	Starts         Region               // what hangs on constants, run once
	Regions        []*Region            // slices, in topological order
	OutputsInOrder []Output             // in order of construction
	Inputs         []Input              // by operator; nil where an operator is none
	outputs        []Output             // by operator; nil where an operator is none
	Timers         []timing             // in order of construction
	Picks          func(of Object) bool // in a simulation: which timers fire; nil if all do
	listeners      []listener
	loosened       []*Op // of a simulated graph; see order.go
	Number         int   // among the locations of the graph
	divided        bool
	source         source       // of the step of a simulated location that is being made; see affinity.go
	Recorder       StepRecorder // of the graph, if it is recorded
	planned        bool         // see Planned
	ends           bool         // a step has slices to cut

	Token token.Token
	Edges localEdges // its edges to other locations; see edge.go

	_        token.CacheLinePad
	Mu       sync.Mutex
	Started  bool
	Parked   bool
	Bases    []*InputBase
	endings  []*Ending
	Closing  bool // no input will come: all inputs closed, or stopping
	Stopping bool // pending timers are dropped
	Finished bool
	err      error
	Open     int // inputs not closed
	Queued   int
	order    []Take
	touched  []Input
	Waiters  token.WaiterList
	senders  int // waiters that wait for room

	ParkedAt time.Time     // when it parked last
	Vacant   bool          // it has ended, and nobody holds the token
	Asked    chan struct{} // closed when the holder of the token has copied its figures; see status.go
	Seen     *Figures      // the last copy
	looks    []func()      // called when it is made

	Stalled atomic.Int32  // outputs and calls over their bound
	stalls  atomic.Uint64 // how often one more of them was
	watched atomic.Bool   // a timer looks whether that lasts; see blocked.go
	told    map[*Op]bool  // of which somebody was told; of the watch
	Calls   atomic.Int64  // asynchronous calls begun or waiting, without a recorded answer

	// held by the token
	_         token.CacheLinePad
	At        int32      // index of the operator that is running user code
	Ports     []Port     // ports to which the step gave something
	Later     []Delivery // edges, cycles and calls to which it did
	now       int64      // clock of this step; 0 when not read yet
	origin    int64      // what the wall clock showed when that was 0
	Read      int64      // what it was when the last step ended
	Rearm     bool       // a timer was set in this step
	ArmedFor  int64      // deadline for which the timer was armed last
	completed bool       // the step got to its end
	steps     uint64     // so far
	more      int        // how many more records they took than there were steps
}

// NoDeadline is the deadline of a timer that is not armed.
const NoDeadline = int64(1<<63 - 1)

// NewLocation adds a location to the graph.
func (g *Graph) NewLocation(name string) *Location {
	if g.Begun() {
		Misuse("dataflow.At", "the flow has been started, nothing can be added to it")
	}
	s := &Location{Graph: g, Name: name, Number: len(g.Locations), ArmedFor: NoDeadline}
	s.Starts.Loc = s
	g.Locations = append(g.Locations, s)
	return s
}

// Divide makes the location one whose keys may be divided between partitions.
func (s *Location) Divide() { s.divided = true }

// Partitioned reports whether the keys of the location may be divided.
func (s *Location) Partitioned() bool { return s.divided }

// Partitions returns how many partitions the location has, each with a history of its own.
func (s *Location) Partitions() int {
	if s.divided {
		return max(s.Graph.Settings.Parts, 1)
	}
	return 1
}

// Partition returns the number of the partition whose steps are made here, from 0 on.
func (s *Location) Partition() int {
	if s.divided {
		return s.Graph.Settings.Part
	}
	return 0
}

// Divided reports whether the keys of location number i may be divided.
func (g *Graph) Divided(i int) bool { return g.Locations[i].divided }

// Top returns the head of a node at the top level.
func (s *Location) Top() Head { return Head{Loc: s} }

// Constant returns the head of a node that is complete when the flow starts.
func (s *Location) Constant() Head { return Head{Loc: s, Region: &s.Starts} }

// Compiled calls f when the graph is compiled.
func (s *Location) Compiled(f func()) { s.binds = append(s.binds, f) }

func (s *Location) compile() {
	s.addLoosened()
	for _, f := range slices.Backward(s.binds) { // from the sinks, so that each knows who follows
		f()
	}
	s.binds = nil
	s.settleEndings()
	s.settleListeners()
	s.Regions = topological(s.Regions)
	for _, r := range s.Regions {
		if r.ins == 0 {
			Misuse("slice.At", "%s has no input: nothing would ever run it", r)
		}
	}
	s.orderTimers()
	s.Recorder = s.Graph.Settings.Recorder
	s.planned = s.Recorder != nil || stepsArePlanned != "" || s.Listens()
	s.ends = len(s.Regions) > 0
	if w := s.Graph.Settings.Watch; w != nil {
		for _, r := range s.Regions {
			r.observe(w)
		}
	}
}

// start hands the location, which has been compiled, to the driver.
func (s *Location) start() {
	s.Mu.Lock()
	if s.err != nil {
		s.Mu.Unlock()
		return
	}
	s.Started = true
	s.Token.Open()
	s.Closing = s.Closing || s.Open == 0
	s.Mu.Unlock()
	s.Graph.Driver.Start(s)
}

// stop closes every input and drops pending timers.
func (s *Location) stop() {
	s.Mu.Lock()
	s.Closing, s.Stopping = true, true
	s.Waiters.WakeAll()
	s.RefuseAll()
	if s.Token.Notify() {
		s.Graph.Driver.Settle(s, 1)
		return
	}
	s.Mu.Unlock()
}

// RefuseAll sends every sender to look under mu, where it is refused.
func (s *Location) RefuseAll() {
	for _, d := range s.Bases {
		d.Shut.Store(true)
	}
}

// closeInput is called with mu held when an input has been closed, and says whether that
// left a record.
func (s *Location) closeInput(left bool) {
	s.Open--
	if s.Open == 0 && !s.Closing && s.Started { // before the start an input may still be added
		s.Closing, left = true, true
	}
	if left && s.Token.Notify() {
		s.Graph.Driver.Settle(s, 1)
		s.Mu.Lock()
	}
}

// Abandon ends the location, and no other one, because of err.
func (s *Location) Abandon(err error) {
	if s.abort(err) {
		s.Graph.siteFinished()
	}
}

// abort ends the location at once, unless it has ended.
func (s *Location) abort(err error) bool {
	s.Mu.Lock()
	if s.Finished {
		s.Mu.Unlock()
		return false
	}
	s.err, s.Closing, s.Finished = err, true, true
	s.Vacant = s.Parked || !s.Started || s.Token.Take()
	s.Token.Shut()
	s.Graph.Driver.Retire(s)
	s.Waiters.WakeAll()
	s.Mu.Unlock()
	for _, out := range s.OutputsInOrder {
		out.End(err)
	}
	return true
}

// Quiet is called with mu held by the holder of the token. It finishes the location if
// that can make no further step, unless it accepts an ending then.
func (s *Location) Quiet() {
	if !s.Closing || s.Finished || s.Calls.Load() > 0 || s.endTime() || !s.mayEnd() {
		return
	}
	s.Finished, s.Vacant = true, true
	s.Token.Shut()
	s.Graph.Driver.Retire(s)
	s.Waiters.WakeAll()
	s.Mu.Unlock()
	for _, out := range s.OutputsInOrder {
		out.End(nil)
	}
	s.Graph.siteFinished()
	s.Mu.Lock()
}

// CloseInputs closes every input of the location before the start.
func (s *Location) CloseInputs() {
	s.Mu.Lock()
	s.Closing = true
	s.RefuseAll()
	s.Mu.Unlock()
}

// Resume is called by a reader when an output is below its bound again.
func (s *Location) Resume() {
	if s.Simulated() {
		s.Graph.Settings.Turns.Touch(s.Held(), Writes)
	}
	if s.Stalled.Add(-1) > 0 {
		return
	}
	s.Mu.Lock()
	if !s.Parked {
		s.Mu.Unlock()
		return
	}
	s.Parked = false
	s.Graph.Driver.HandOver(s)
}

// Pause waits until w is signalled or ctx ends, and runs the location's loop for a
// batch whenever it is handed the token.
func (s *Location) Pause(ctx context.Context, w *token.Waiter) error {
	if err := s.Graph.Driver.Wait(ctx, s, w); err != nil {
		return err
	}
	s.RunIfHanded(w)
	return nil
}

// RunIfHanded runs the location's loop for a batch if w was handed the token.
func (s *Location) RunIfHanded(w *token.Waiter) {
	s.Mu.Lock()
	if !w.HasToken {
		s.Mu.Unlock()
		return
	}
	w.HasToken = false
	s.Waiters.Add(w)
	s.Graph.Driver.Settle(s, 1)
}

// enough is how many waiters are known to a location before those that need not be are no
// longer made so: some, so that one is there who can be handed the token, and no more,
// since it costs the location's lock.
const enough = 4

// Wanting says whether the location has few waiters to hand the token to.
func (s *Location) Wanting() bool { return s.Waiters.N.Load() < enough }

// Enlist makes w known to the location.
func (s *Location) Enlist(w *token.Waiter) {
	s.Mu.Lock()
	s.Waiters.Add(w)
	s.Mu.Unlock()
}

// Leave forgets w; if w was handed the token in the meantime it passes it on.
func (s *Location) Leave(w *token.Waiter) {
	s.Mu.Lock()
	s.Waiters.Remove(w)
	if w.HasToken {
		w.HasToken = false
		s.Graph.Driver.Settle(s, 1)
		return
	}
	s.Mu.Unlock()
}
