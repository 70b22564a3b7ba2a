package engine

import (
	"context"

	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/token"
)

// A Driver is what differs between the ways in which a graph is run: who makes the plans
// of the steps, what the time is, and what a caller does that has to wait.
//
// It is asked on slow paths only. The fast path of a sender sees a driver in the run token
// alone: in a graph that is not live nobody ever finds it free.
type Driver interface {
	// Prepare is called once, when the graph is compiled and no location is started.
	Prepare(g *Graph)

	// Start runs a location that has been compiled: it makes the first step, or leaves that
	// to whoever makes the steps.
	Start(s *Location)

	// Now returns the time in nanoseconds since the history began, never 0, for a step whose
	// plan does not say it. The holder of the token asks.
	Now(s *Location) int64

	// Perform makes the step of a plan and publishes what it gave. It reports false if the
	// step failed. The holder of the token calls it.
	Perform(s *Location, p *Plan) (ok bool)

	// Arm has the location wake up at its earliest deadline. The holder of the token calls
	// it after a step that set a timer, or fired some.
	Arm(s *Location)

	// Settle makes up to n steps with what has been accepted (all of it if n < 0), then
	// gives the token away. It is called with mu held by the holder of the token and returns
	// with mu free. It reports false if a step that it made failed: the token then stays
	// held, so that nothing of that step is ever published.
	Settle(s *Location, n int) (ok bool)

	// HandOver passes the token to a goroutine that has nothing else to do. It is called with
	// mu held by the holder of the token and returns with mu free.
	HandOver(s *Location)

	// Admit says what a sender does with a record who did not get the token at once. It may
	// wait for room. It is called and returns with mu held.
	Admit(ctx context.Context, d *InputBase) (Admission, error)

	// Wait returns when w was signalled, with the cause when ctx ends, or with another error
	// if w waits in vain.
	Wait(ctx context.Context, s *Location, w *token.Waiter) error

	// Deliver hands on what a step gave to an exchange, a cycle or calls.
	Deliver(x Delivery)

	// Arrived says that records were appended to the queue of the location to which l goes,
	// whose mu is held, and unlocks that.
	Arrived(l *Edge)

	// Bounded reports whether an output over its bound keeps its location from running.
	Bounded() bool

	// Retire is called with mu held when a location has ended.
	Retire(s *Location)

	// Ask has the figures of the location copied by the holder of the token, who closes the
	// channel that ask returns then, or copies them itself and returns nil. It is called
	// with mu held and unlocks it.
	Ask(s *Location) <-chan struct{}

	// Ended waits until the graph has ended and returns why. If that is not by itself and
	// ctx ends first, it ends the graph.
	Ended(ctx context.Context, g *Graph) error
}

// An Admission is what a sender does with a record.
type Admission int

const (
	Refused   Admission = iota
	Enqueue             // leave it in the input's queue and have somebody run the location
	RunNow              // run the location: the sender has the token
	Elsewhere           // send it to where the history is
)

// A remote graph has the ports of a flow whose history is elsewhere: what is sent to its
// inputs goes there, and its outputs have what comes from there. Its operators never
// run. So a program uses the same ports wherever its flow is run.

// Remote is where the history of a remote graph is.
type Remote interface {
	// Send makes records part of the history of a location, in order for each partition.
	// It returns how many of them, from the first one, are durable, and if that is not all
	// why the next one is not. Of those behind it, some may be durable as well.
	Send(ctx context.Context, site int, rs []codec.Record) (int, error)

	// Put is Send of records that may be refused. It returns when it is known what became of
	// each: nil if it was taken, ErrDuplicate if it was refused, or another error if it is
	// not durable or nobody knows.
	Put(ctx context.Context, site int, rs []codec.Record) []error

	// Read says that all elements of a stream before number have been read. It does not
	// wait.
	Read(site int, op int32, source int, number uint64)

	// Given returns how many elements a partition has given to an output. Owned is false if it is not in this process.
	Given(ctx context.Context, op int32, partition int) (n uint64, owned bool, err error)

	// Take asks for an entry that is there. It returns when it is known who has it: nil if
	// the caller does, ErrTaken if somebody else does, or another error if nobody knows.
	Take(ctx context.Context, site int, op int32, key []byte) error

	// Want says that somebody waits for an entry, until the returned function is called. The
	// context ends when ctx does, or when the entry cannot come, with the cause.
	Want(ctx context.Context, site int, op int32, key []byte) (_ context.Context, done func())

	// Stopped returns why the location takes nothing, or nil if it does or nobody here knows.
	Stopped(site int) *Blocked
}
