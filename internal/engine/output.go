package engine

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/internal/engine/codec"
)

// An Output is where a step's results go: a port, another location, a cycle or
// asynchronous calls. Each implements all of it; what one does not have it says by
// embedding one of the types below.
type Output interface {
	Operator() *Op
	End(err error) // nothing will come; err is nil if the flow ended by itself

	// Over returns what waits behind the output, and whether that is why the location does
	// not run.
	Over() (b Blocked, stopped bool)

	// Figures returns what waits there for the status of the location.
	Figures() OutputStatus

	// Of a location whose history is elsewhere:

	// Emit appends what the step gave, and keeps what the state of the output needs.
	Emit(dst []byte, c codec.Codec) ([]byte, error)
	// Adopt reads what Emit appended, and keeps that instead: what the step gave is forgotten.
	// Of a value, which the next step may change, nothing is kept.
	Adopt(d *codec.Decoder, c codec.Codec)
	// Kept appends, in the same form, what nobody has read or taken yet, or the value.
	Kept(dst []byte, c codec.Codec) ([]byte, error)
	// Acknowledge accepts a record of what was read, taken or sent. It reports false if the
	// record is refused.
	Acknowledge(r *codec.Record, c codec.Codec) (ok bool, err error)
	// Full reports whether more waits than may.
	Full() bool
	// Lookup returns the encoded value that an output of entries has under an encoded key.
	Lookup(key []byte, c codec.Codec) (value []byte, ok bool, err error)

	// Of the ports of a flow that runs elsewhere:

	// Feed decodes what a step gave, for publish to make it visible.
	Feed(d *codec.Decoder, c codec.Codec, source int)
	DescribeFed(in *codec.Decoder, c codec.Codec, d *codec.Describer)
	// Found decodes an entry that somebody waits for, for publish to give it to them only.
	Found(key, value []byte, c codec.Codec) error
	// Whole says, after Feed, that nothing else is there of the keys of which of reports true,
	// and reports whether that changes an output that Feed did not.
	Whole(of func(op *Op, key []byte) bool, c codec.Codec) (changed bool, err error)
	// Find waits for an entry and returns its encoded value.
	Find(ctx context.Context, key []byte, c codec.Codec) ([]byte, error)
	// Showing returns a function that appends what an output of a value shows now, or nil if
	// it has shown nothing or is none.
	Showing() func(dst []byte, c codec.Codec) ([]byte, error)
	Valued() bool // whether it is an output of a value that changes
}

// A Port is an output that goroutines outside the location read.
type Port interface {
	Output
	Release()          // give, show, and wake: all of a publication that has no other port
	Give()             // lock the port, and change it to what the step gave
	Show() (more bool) // unlock it, and wake readers; more says that wake has something to do
	Wake()             // what is left to do without the lock
	Forget()           // drop what the step gave
}

// A Sharing is a port that keeps encoded values, of which the location that gives them and the port of its process that shows
// them need one copy.
type Sharing interface {
	Port
	Gave() []string          // what is kept of the values that Emit has appended last, in order
	Share(gave []string)     // that of the values which Feed is about to decode
	FeedFrom(from Port) bool // does what Feed does with all that the port of the location keeps, or reports false
}

// A Delivery is an output whose contents go on within the flow when the step is published.
type Delivery interface {
	Output
	Deliver()        // move it on; whoever gets it runs by itself
	Discard()        // forget it
	Loops() bool     // whether it comes back to the location as records of a later step
	Exchange() *Edge // to another location, or nil
}

// A Calling is a delivery of asynchronous calls.
type Calling interface {
	Delivery
	Ask()                                      // in a simulation: the calls that the step asked for wait to be made
	Asked() int                                // how many of those that wait may be made now
	CallID(i int) uint64                       // what tells call i from the others
	SayCall(i int) string                      // call i, for people
	PlacedBy(i int) (affinity string, ok bool) // what call i is placed by, if that is not its key
	CallNow(i int, later bool)                 // make call i, and have its answer accepted, now or when Answer is called
	Again(i int) func()                        // what has call i, which is about to be made, wait to be made again
	Made() int                                 // how many were made whose answers were not accepted
	MadeID(i int) uint64                       // what tells call i of these from the others
	SayMade(i int) string                      // call i of these, for people
	Answer(i int)                              // have the answer of call i of these accepted
	Begin()                                    // make the calls that the last committed step asked for, once Resume was called
	Resume()                                   // make all calls that have no answer
}

// An Unsent is a delivery to another location of a graph whose history is elsewhere: what
// it gave stays in the state until a record says that it was sent.
type Unsent interface {
	Delivery
	// Moved appends what was not returned before.
	Moved(all []Moved) []Moved
	// Identify gives the edge a number if the history had none of it, and returns the last
	// one that was given.
	Identify(last uint64) uint64
}

// A Moved is an element for another location.
type Moved struct {
	Link     int32        // number of the operator that the record is for by which it is acknowledged
	ID       uint64       // tells the edges of a location apart, and is used once in a history
	Location int          // number of the location
	Within   bool         // what is sent there comes back, over others or not
	All      bool         // it is for every partition of the location, and makes up for those right before it
	Record   codec.Record // its number is one more than how many there were before
}

// AddOutput adds an output with the number of op.
func (s *Location) AddOutput(op *Op, out Output) {
	s.OutputsInOrder = append(s.OutputsInOrder, out)
	if op.Loc != s { // the end of an exchange, which has no operator of its own here
		return
	}
	for len(s.outputs) <= int(op.Index) {
		s.outputs = append(s.outputs, nil)
	}
	s.outputs[op.Index] = out
	op.portLabel("output")
}

// Output returns the output with an operator's number.
func (s *Location) Output(op int32) (Output, error) {
	if op < 0 || int(op) >= len(s.outputs) || s.outputs[op] == nil {
		return nil, fmt.Errorf("%w: operator %d is no output", codec.ErrRecord, op)
	}
	return s.outputs[op], nil
}

// Input returns the input with an operator's number, or nil.
func (s *Location) Input(op int32) Input {
	if op < 0 || int(op) >= len(s.Inputs) {
		return nil
	}
	return s.Inputs[op]
}

// Endless is an output behind which any number may wait.
type Endless struct{}

// Over implements [Output].
func (Endless) Over() (Blocked, bool) { return Blocked{}, false }

// Full implements [Output].
func (Endless) Full() bool { return false }

// NoEntries is an output that is not one of entries.
type NoEntries struct{}

// Lookup implements [Output].
func (NoEntries) Lookup([]byte, codec.Codec) ([]byte, bool, error) { return nil, false, errNoEntries }

// Find implements [Output].
func (NoEntries) Find(context.Context, []byte, codec.Codec) ([]byte, error) {
	return nil, errNoEntries
}

// Found implements [Output].
func (NoEntries) Found([]byte, []byte, codec.Codec) error { return errNoEntries }

// Whole implements [Output].
func (NoEntries) Whole(func(*Op, []byte) bool, codec.Codec) (bool, error) { return false, nil }

var errNoEntries = fmt.Errorf("%w: it is for an output of entries", codec.ErrRecord)

// NoValue is an output that is not one of a value that changes.
type NoValue struct{}

// Showing implements [Output].
func (NoValue) Showing() func([]byte, codec.Codec) ([]byte, error) { return nil }

// Valued implements [Output].
func (NoValue) Valued() bool { return false }

// Inner is an output within the flow: nobody outside reads it, and what it gives is no part
// of what the outputs of the location keep.
type Inner struct {
	NoEntries
	NoValue
}

// Kept implements [Output].
func (Inner) Kept(dst []byte, _ codec.Codec) ([]byte, error) { return dst, nil }

// Acknowledge implements [Output].
func (Inner) Acknowledge(r *codec.Record, _ codec.Codec) (bool, error) {
	return false, fmt.Errorf("%w: it is of kind %d, and nobody reads there", codec.ErrRecord, r.Kind)
}

// Adopt implements [Output].
func (Inner) Adopt(d *codec.Decoder, _ codec.Codec) { d.Fail() }

// Feed implements [Output].
func (Inner) Feed(d *codec.Decoder, _ codec.Codec, _ int) { d.Fail() }

// DescribeFed implements [Output].
func (Inner) DescribeFed(in *codec.Decoder, _ codec.Codec, _ *codec.Describer) { in.Fail() }

// Release ends a step of a live location: it has the driver wake the location at the deadline of a
// timer that the step set, and publishes what the step gave.
func (s *Location) Release() {
	if s.Rearm {
		s.Graph.Driver.Arm(s)
	}
	s.Publish()
}

// Publish ends a step by handing on what it gave.
//
// It first changes all ports, and unlocks none before all are changed, so that a reader who has seen
// the step at one port sees it at every other one. Then it tells other locations, cycles and
// asynchronous calls, so that what follows from the step is never seen before the step.
//
// Only the holder of the token, or the feeder of a remote graph, locks more than one
// port at a time, so the order of locking does not matter. While the ports are locked it
// waits for nobody but readers, which hold one port each and not for long.
func (s *Location) Publish() {
	if len(s.Ports) == 1 {
		s.Ports[0].Release()
	} else {
		for _, p := range s.Ports {
			p.Give()
		}
		more := false
		for _, p := range s.Ports {
			more = p.Show() || more
		}
		if more {
			for _, p := range s.Ports {
				p.Wake()
			}
		}
	}
	s.Ports = s.Ports[:0]
	for _, x := range s.Later {
		s.Graph.Driver.Deliver(x)
	}
	s.Later = s.Later[:0]
}
