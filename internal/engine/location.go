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
	Region   *Region // the slice, or nil
}

// PlaceOf returns the place that a location of type at holds. It panics unless the location was made as one of this type. The
// type alone proves nothing, because a struct that embeds a location converts to another one that does.
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

// Outside returns the location of a place. If the place is in a slice, it panics with the message why.
func (p Place) Outside(op, why string) *Location {
	if p.Region != nil {
		Misuse(op, why, p.Region)
	}
	return p.Location
}

// Input returns the location of a place in which an input may be made, and panics elsewhere.
func (p Place) Input(op string) *Location {
	return p.Outside(op, "an input comes from outside and cannot be inside %s")
}

// Destination returns the location of a place to which something may be sent, and panics elsewhere.
func (p Place) Destination(op string) *Location {
	return p.Outside(op, "what is sent comes later and cannot be inside %s: send it to the location and let it in from there")
}

// A Location is one instance of a location: its operators and the loop that runs them.
//
// It maintains, whenever mu is free:
//
//  1. the token is held if and only if a goroutine runs the loop, or the location waits for a reader because an output is over
//     its bound (Parked); the token's state is news if something was left since its holder looked,
//  2. Queued is the number of records in the inputs' buffers, and order lists them in the order in which they were accepted,
//  3. a waiter is in the list Waiters, or has the token, or will look for itself.
//
// Everything below "held by the token" is touched only by the token's holder.
type Location struct {
	Graph *Graph
	Name  string

	// fixed once compiled
	Ops            []*Op
	Making         *Op            // the operator being built; see operator.go
	labels         map[string]*Op // operators with names
	binds          []func()
	Starts         Region               // what depends on constants, run once
	Regions        []*Region            // slices, in topological order
	OutputsInOrder []Output             // in order of construction
	Inputs         []Input              // by operator; nil for operators that are not inputs
	outputs        []Output             // by operator; nil for operators that are not outputs
	Timers         []timing             // in order of construction
	Picks          func(of Object) bool // in a simulation: which timers fire; nil if all do
	listeners      []listener
	loosened       []*Op // of a simulated graph; see order.go
	Number         int   // index among the locations of the graph
	divided        bool
	source         source       // of the step that a simulated location is making; see affinity.go
	Recorder       StepRecorder // of the graph, if it is recorded; otherwise nil
	planned        bool         // see Planned
	ends           bool         // a step has slices to cut
	MostSent       int          // of a log-driven location: the most bytes of an element for another location; 0 means no bound

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
	senders  int // waiters that wait for space

	ParkedAt     time.Time     // when it parked last
	Vacant       bool          // it has ended, and the token has no holder
	Asked        chan struct{} // closed when the holder of the token has copied its figures; see status.go
	Seen         *Figures      // the last copy
	betweenSteps []func()      // called when the copy is made

	Stalled          atomic.Int32  // number of outputs and calls over their bound
	stalls           atomic.Uint64 // how often Stalled was incremented
	watched          atomic.Bool   // a timer checks whether a stall lasts; see blocked.go
	reportedBlocking map[*Op]bool  // operators that were reported as blocking; used by watch
	Calls            atomic.Int64  // asynchronous calls begun or waiting, without a recorded answer

	// held by the token
	_         token.CacheLinePad
	At        int32      // index of the operator that is running user code
	Ports     []Port     // ports to which the step gave something
	Later     []Delivery // edges, cycles and calls to which the step gave something
	now       int64      // clock of this step; 0 when not read yet
	origin    int64      // what the wall clock showed at time 0
	Read      int64      // the value of now at the end of the last step
	Rearm     bool       // a timer was set in this step
	ArmedFor  int64      // deadline for which the timer was armed last
	completed bool       // the step reached its end
	steps     uint64     // so far
	more      int        // records taken, minus steps made
}

// NoDeadline is the deadline of a timer that is not armed.
const NoDeadline = int64(1<<63 - 1)

// Never is the latest deadline of a timer that is armed. It is more than two centuries after the history began.
const Never = NoDeadline - 1

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

// Divide allows the keys of the location to be divided between partitions.
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

// Partition returns the number, from 0 on, of the partition whose steps are made here.
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
	for _, f := range slices.Backward(s.binds) { // from the sinks, so that each node knows its followers
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

// RefuseAll makes every sender look under mu, where it is refused.
func (s *Location) RefuseAll() {
	for _, d := range s.Bases {
		d.Shut.Store(true)
	}
}

// closeInput is called with mu held when an input has been closed. left says whether closing it left a record.
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

// Abandon ends this location, and no other, because of err.
func (s *Location) Abandon(err error) {
	if s.abort(err) {
		s.Graph.locationFinished()
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

// Quiet is called with mu held by the holder of the token. If the location can make no further step, it either accepts an ending
// or finishes the location.
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
	s.Graph.locationFinished()
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
		s.Graph.Settings.Turns.Touch(s.Backpressure(), Writes)
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

// Pause waits until w is signaled or ctx ends. If w was handed the token, Pause runs the location's loop for one batch.
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

// enough is the number of listed waiters from which on optional waiters are no longer listed. A few waiters must be listed so
// that the token can be handed to one; more are not, because listing takes the location's lock.
const enough = 4

// Wanting reports whether the location has few waiters to hand the token to.
func (s *Location) Wanting() bool { return s.Waiters.N.Load() < enough }

// Enlist lists w as a waiter of the location.
func (s *Location) Enlist(w *token.Waiter) {
	s.Mu.Lock()
	s.Waiters.Add(w)
	s.Mu.Unlock()
}

// Leave removes w from the list. If w was handed the token in the meantime, it passes it on.
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
