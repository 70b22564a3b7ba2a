package engine

import (
	"context"

	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/token"
)

// A Driver is what differs between the ways of running a graph: who makes the plans of the steps, what the time is, and what a
// caller does that has to wait.
//
// It is used on slow paths only. On its fast path a sender notices the driver only through the run token: in a graph that is not
// live, the token is never free.
type Driver interface {
	// Prepare is called once, when the graph is compiled and no location is started.
	Prepare(g *Graph)

	// Start runs a compiled location: it makes the first step, or leaves that to whatever makes the steps.
	Start(s *Location)

	// Now returns the time in nanoseconds since the history began, never 0, for a step whose plan has no time. It is called by
	// the holder of the token.
	Now(s *Location) int64

	// Perform makes the step of a plan and publishes what it gave. It reports false if the step failed. It is called by the
	// holder of the token.
	Perform(s *Location, p *Plan) (ok bool)

	// Arm makes the location wake up at its earliest deadline. It is called by the holder of the token after a step that set or
	// fired a timer.
	Arm(s *Location)

	// Settle makes up to n steps with what has been accepted (all of it if n < 0), then gives the token away. It is called with
	// mu held by the holder of the token and returns with mu free. It reports false if a step that it made failed. The token then
	// stays held, so that nothing of that step is ever published.
	Settle(s *Location, n int) (ok bool)

	// HandOver passes the token to a goroutine that has nothing else to do. It is called with
	// mu held by the holder of the token and returns with mu free.
	HandOver(s *Location)

	// Admit decides what a sender that did not get the token at once does with a record. It may wait for space. It is called and
	// returns with mu held.
	Admit(ctx context.Context, d *InputBase) (Admission, error)

	// Wait returns when w is signaled, with the cause when ctx ends, or with another error if w waits in vain.
	Wait(ctx context.Context, s *Location, w *token.Waiter) error

	// Deliver passes on what a step gave to an exchange, a cycle or calls.
	Deliver(x Delivery)

	// Arrived is called after records were appended to the queue of l's destination, whose mu is held; it unlocks mu.
	Arrived(l *Edge)

	// Bounded reports whether an output over its bound keeps its location from running.
	Bounded() bool

	// Retire is called with mu held when a location has ended.
	Retire(s *Location)

	// Ask requests a copy of the location's figures. Either the holder of the token copies them and then closes the returned
	// channel, or Ask copies them itself and returns nil. It is called with mu held and unlocks it.
	Ask(s *Location) <-chan struct{}

	// Ended waits until the graph has ended and returns why. If ctx ends first, Ended ends the graph.
	Ended(ctx context.Context, g *Graph) error
}

// An Admission is what a sender does with a record.
type Admission int

const (
	Refused   Admission = iota
	Enqueue             // leave it in the input's queue and have the location run
	RunNow              // run the location: the sender holds the token
	Elsewhere           // send it to where the history is kept
)

// A remote graph holds the ports of a flow whose history is kept elsewhere: what is sent to its inputs goes there, and its
// outputs show what comes from there. Its operators never run. So a program uses the same ports wherever its flow runs.

// Remote is where the history of a remote graph is kept.
type Remote interface {
	// Send makes records part of the history of a location, in order within each partition. It returns how many of them, from the
	// first on, are durable and, if not all are, why the next one is not. Some of those after it may be durable as well.
	Send(ctx context.Context, location int, rs []codec.Record) (int, error)

	// Put is Send for records that may be refused. It returns when the outcome of each is known: nil if it was taken,
	// ErrDuplicate if it was refused, or another error if it is not durable or its outcome cannot be known.
	Put(ctx context.Context, location int, rs []codec.Record) []error

	// Read reports that all elements of a stream before number have been read. It does not wait.
	Read(location int, op int32, source int, number uint64)

	// Given returns how many elements a partition has given to an output. Owned is false if this process does not run the
	// partition.
	Given(ctx context.Context, op int32, partition int) (n uint64, owned bool, err error)

	// Take asks for an existing entry. It returns when it is known who has it: nil if the caller does, ErrTaken if another caller
	// does, or another error if that cannot be known.
	Take(ctx context.Context, location int, op int32, key []byte) error

	// Want registers a caller that waits for an entry, until the returned function is called. The context ends when ctx does or,
	// with the cause, when the entry cannot come.
	Want(ctx context.Context, location int, op int32, key []byte) (_ context.Context, done func())

	// Stopped returns why the location takes nothing, or nil if it does or if that is not known here.
	Stopped(location int) *Blocked
}
