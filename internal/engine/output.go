package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/engine/codec"
)

// An Output is where a step's results go: a port, another location, a cycle or asynchronous calls. Each implements the whole
// interface; for the parts that it does not support, it embeds one of the types below.
type Output interface {
	Operator() *Op
	End(err error) // nothing will come; err is nil if the flow ended by itself

	// Over returns what waits behind the output, and whether the location does not run because of it.
	Over() (b Blocked, stopped bool)

	// Figures returns the output's part of the status of the location.
	Figures() OutputStatus

	// For a location whose history is kept elsewhere:

	// Emit appends what the step gave, and keeps what the state of the output needs. An error is about an element that cannot be
	// encoded, or that is too large for another location.
	Emit(dst []byte, c codec.Codec) ([]byte, error)
	// Adopt reads what Emit appended and keeps that, instead of what the step gave. An output of a value, which the next step may
	// change, keeps nothing.
	Adopt(d *codec.Decoder, c codec.Codec)
	// Kept appends, in the same format, what was not read or taken yet, or the value.
	Kept(dst []byte, c codec.Codec) ([]byte, error)
	// Acknowledge accepts a record that something was read, taken or sent. It reports false if the record is refused.
	Acknowledge(r *codec.Record, c codec.Codec) (ok bool, err error)
	// Full reports whether more waits than the bound allows.
	Full() bool
	// Lookup returns the encoded value of an encoded key in an output of entries.
	Lookup(key []byte, c codec.Codec) (value []byte, ok bool, err error)

	// For the ports of a flow that runs elsewhere:

	// Feed decodes what a step gave, for Publish to make it visible.
	Feed(d *codec.Decoder, c codec.Codec, source int)
	DescribeFed(in *codec.Decoder, c codec.Codec, d *codec.Describer)
	// Found decodes an entry that callers wait for; Publish gives it only to them.
	Found(key, value []byte, c codec.Codec) error
	// Whole says, after Feed, that among the keys for which of reports true there are no others than those fed. It reports
	// whether that changes an output that Feed did not change.
	Whole(of func(op *Op, key []byte) bool, c codec.Codec) (changed bool, err error)
	// Find waits for an entry and returns its encoded value.
	Find(ctx context.Context, key []byte, c codec.Codec) ([]byte, error)
	// Showing returns a function that appends what an output of a value shows now. It returns nil if the output has shown nothing
	// or is of another kind.
	Showing() func(dst []byte, c codec.Codec) ([]byte, error)
	Valued() bool // whether it is an output of a value that changes
}

// A Port is an output that goroutines outside the location read.
type Port interface {
	Output
	Release()          // Give, Show and Wake: a whole publication if there is no other port
	Give()             // lock the port, and change it to what the step gave
	Show() (more bool) // unlock it and wake readers; more says that Wake has something to do
	Wake()             // do what is left to do without the lock
	Forget()           // drop what the step gave
}

// A Sharing is a port that keeps encoded values. The location that gives the values and the port of the same process that shows
// them can share one copy.
type Sharing interface {
	Port
	Gave() []string          // what is kept of the values that Emit appended last, in order
	Share(gave []string)     // the same for the values that Feed is about to decode
	FeedFrom(from Port) bool // feed everything that the location's port keeps, or report false
}

// A Delivery is an output whose contents continue within the flow when the step is published.
type Delivery interface {
	Output
	Deliver()        // move the contents on; the receiver runs by itself
	Discard()        // drop the contents
	Loops() bool     // whether they come back to the location as records of a later step
	Exchange() *Edge // the edge to another location, or nil
}

// A Calling is a delivery of asynchronous calls.
type Calling interface {
	Delivery
	Ask()                                      // in a simulation: queue the calls that the step requested
	Asked() int                                // how many of the queued calls may be made now
	CallID(i int) uint64                       // distinguishes call i from the others
	CallText(i int) string                     // call i, for people
	PlacedBy(i int) (affinity string, ok bool) // what call i is placed by, if not its key
	CallNow(i int, later bool)                 // make call i, and accept its answer, now or when Answer is called
	Again(i int) func()                        // returns a function that queues call i, which is about to be made, once more
	Made() int                                 // number of calls made whose answers were not accepted
	MadeID(i int) uint64                       // distinguishes made call i from the others
	MadeText(i int) string                     // made call i, for people
	Answer(i int)                              // accept the answer of made call i
	Begin()                                    // start the calls that the last committed step requested, once Resume was called
	Resume(held func(key []byte) bool)         // start all calls that have no answer, except for keys that are held; held may be nil
}

// An Unsent is a delivery to another location, in a graph whose history is kept elsewhere. What it gave stays in the state until
// a record says that it was sent.
type Unsent interface {
	Delivery
	// Moved appends what it has not returned before.
	Moved(all []Moved) []Moved
	// Identify numbers the edge if the history had no number for it, and returns the last number that was given.
	Identify(last uint64) uint64
}

// A Moved is an element for another location.
type Moved struct {
	Link     int32        // number of the operator to which a record acknowledges that it was sent
	ID       uint64       // distinguishes the edges of a location, and is never reused in a history
	Location int          // number of the location
	Within   bool         // what is sent there comes back, directly or over other locations
	All      bool         // it is for every partition of the location, and supersedes one right before it
	Record   codec.Record // its number is the count of elements before it, plus one
}

// An EntryError is an error of Emit that concerns the entry of one key.
type EntryError struct {
	Key any
	Err error
}

func (e *EntryError) Error() string { return e.Err.Error() }

func (e *EntryError) Unwrap() error { return e.Err }

// EmitFailed returns the error of a step whose results out cannot emit: as if the function of its operator had panicked with err.
func (s *Location) EmitFailed(out Output, err error) error {
	p := &Panic{Op: out.Operator(), Location: s.Name, Value: err}
	if e := (*EntryError)(nil); errors.As(err, &e) {
		p.Key, p.HasKey = e.Key, true
	}
	return s.Graph.Settings.Wrap(p)
}

// AddOutput adds an output whose operator is op.
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

// Output returns the output of the operator with number op.
func (s *Location) Output(op int32) (Output, error) {
	if !s.HasOutput(op) {
		return nil, fmt.Errorf("%w: operator %d is no output", codec.ErrRecord, op)
	}
	return s.outputs[op], nil
}

// HasOutput reports whether the operator with number op is an output.
func (s *Location) HasOutput(op int32) bool {
	return op >= 0 && int(op) < len(s.outputs) && s.outputs[op] != nil
}

// Input returns the input of the operator with number op, or nil.
func (s *Location) Input(op int32) Input {
	if op < 0 || int(op) >= len(s.Inputs) {
		return nil
	}
	return s.Inputs[op]
}

// Endless is embedded by outputs behind which any number of elements may wait.
type Endless struct{}

// Over implements [Output].
func (Endless) Over() (Blocked, bool) { return Blocked{}, false }

// Full implements [Output].
func (Endless) Full() bool { return false }

// NoEntries is embedded by outputs that do not hold entries.
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

// NoValue is embedded by outputs that do not show a value that changes.
type NoValue struct{}

// Showing implements [Output].
func (NoValue) Showing() func([]byte, codec.Codec) ([]byte, error) { return nil }

// Valued implements [Output].
func (NoValue) Valued() bool { return false }

// Inner is embedded by outputs within the flow. They have no readers outside, and what they give is not part of what the outputs
// of the location keep.
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

// Release ends a step of a live location: if the step set a timer, the driver is asked to wake the location at its deadline; then
// what the step gave is published.
func (s *Location) Release() {
	if s.Rearm {
		s.Graph.Driver.Arm(s)
	}
	s.Publish()
}

// Publish ends a step by publishing its results.
//
// It first changes all ports, and unlocks none before all are changed, so that a reader that has seen the step at one port sees
// it at every other one. Then it delivers to other locations, cycles and asynchronous calls, so that consequences of the step are
// never seen before the step.
//
// Only the holder of the token, or the feeder of a remote graph, locks more than one port at a time, so the order of locking does
// not matter. While the ports are locked, it waits only for readers, which hold one port each for a short time.
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
