package engine

import (
	"context"
	"fmt"
)

// An output is where a step's results go: a port, another location, a cycle or
// asynchronous calls. Each implements all of it; what one does not have it says by
// embedding one of the types below.
type output interface {
	operator() *Op
	end(err error) // nothing will come; err is nil if the flow ended by itself

	// over returns what waits behind the output, and whether that is why the location does
	// not run.
	over() (b Blocked, stopped bool)

	// figures returns what waits there for the status of the location.
	figures() OutputStatus

	// Of a location whose history is elsewhere:

	// emit appends what the step gave, and keeps what the state of the output needs.
	emit(dst []byte, c Codec) ([]byte, error)
	// kept appends, in the same form, what nobody has read or taken yet, or the value.
	kept(dst []byte, c Codec) ([]byte, error)
	// acknowledge accepts a record of what was read, taken or sent. It reports false if the
	// record is refused.
	acknowledge(r *Record, c Codec) (ok bool, err error)
	// full reports whether more waits than may.
	full() bool
	// lookup returns the encoded value that an output of entries has under an encoded key.
	lookup(key []byte, c Codec) (value []byte, ok bool, err error)

	// Of the ports of a flow that runs elsewhere:

	// feed decodes what a step gave, for publish to make it visible.
	feed(d *decoder, c Codec, source int)
	describeFed(in *decoder, c Codec, d *describer)
	// find waits for an entry and returns its encoded value.
	find(ctx context.Context, key []byte, c Codec) ([]byte, error)
	// latest returns a function that appends what an output of a value shows now, or nil if
	// it has shown nothing or is none.
	latest() func(dst []byte, c Codec) ([]byte, error)
	valued() bool // whether it is an output of a value that changes
}

// A port is an output that goroutines outside the location read.
type port interface {
	output
	release()          // give, show, and wake: all of a publication that has no other port
	give()             // lock the port, and change it to what the step gave
	show() (more bool) // unlock it, and wake readers; more says that wake has something to do
	wake()             // what is left to do without the lock
	forget()           // drop what the step gave
}

// A delivery is an output whose contents go on within the flow when the step is published.
type delivery interface {
	output
	deliver()        // move it on; whoever gets it runs by itself
	discard()        // forget it
	loops() bool     // whether it comes back to the location as records of a later step
	exchange() *link // to another location, or nil
}

// A calling is a delivery of asynchronous calls.
type calling interface {
	delivery
	callAll() // make all calls now, one after the other
	begin()   // make the calls that the last committed step asked for
	resume()  // make all calls that have no answer
}

// An unsent is a delivery to another location of a graph whose history is elsewhere: what
// it gave stays in the state until a record says that it was sent.
type unsent interface {
	delivery
	// moved appends what was not returned before.
	moved(all []Moved) []Moved
	// identify gives the link a number if the history had none of it, and returns the last
	// one that was given.
	identify(last uint64) uint64
}

// A Moved is an element for another location.
type Moved struct {
	Link   int32  // number of the operator that a [SentRecord] is for
	ID     uint64 // tells the links of a location apart, and is used once in a history
	Site   int    // number of the location
	Within bool   // what is sent there comes back, over others or not
	Record Record // its number is one more than how many there were before
}

// addOutput adds an output with the number of op.
func (s *Site) addOutput(op *Op, out output) {
	s.outlets = append(s.outlets, out)
	if op.site != s { // the end of an exchange, which has no operator of its own here
		return
	}
	for len(s.outputs) <= int(op.index) {
		s.outputs = append(s.outputs, nil)
	}
	s.outputs[op.index] = out
}

// output returns the output with an operator's number.
func (s *Site) output(op int32) (output, error) {
	if op < 0 || int(op) >= len(s.outputs) || s.outputs[op] == nil {
		return nil, fmt.Errorf("%w: operator %d is no output", errRecord, op)
	}
	return s.outputs[op], nil
}

// input returns the input with an operator's number, or nil.
func (s *Site) input(op int32) input {
	if op < 0 || int(op) >= len(s.inputs) {
		return nil
	}
	return s.inputs[op]
}

// endless is an output behind which any number may wait.
type endless struct{}

func (endless) over() (Blocked, bool) { return Blocked{}, false }
func (endless) full() bool            { return false }

// noEntries is an output that is not one of entries.
type noEntries struct{}

func (noEntries) lookup([]byte, Codec) ([]byte, bool, error) { return nil, false, errNoEntries }
func (noEntries) find(context.Context, []byte, Codec) ([]byte, error) {
	return nil, errNoEntries
}

var errNoEntries = fmt.Errorf("%w: it is for an output of entries", errRecord)

// noValue is an output that is not one of a value that changes.
type noValue struct{}

func (noValue) latest() func([]byte, Codec) ([]byte, error) { return nil }
func (noValue) valued() bool                                { return false }

// inner is an output within the flow: nobody outside reads it, and what it gives is no part
// of what the outputs of the location keep.
type inner struct {
	noEntries
	noValue
}

func (inner) kept(dst []byte, _ Codec) ([]byte, error) { return dst, nil }
func (inner) acknowledge(r *Record, _ Codec) (bool, error) {
	return false, fmt.Errorf("%w: it is of kind %d, and nobody reads there", errRecord, r.Kind)
}
func (inner) feed(d *decoder, _ Codec, _ int)                { d.fail() }
func (inner) describeFed(in *decoder, _ Codec, _ *describer) { in.fail() }
