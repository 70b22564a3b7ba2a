package engine

import (
	"context"
	"time"
)

// A driver is what differs between the ways in which a graph is run: who makes the plans
// of the steps, what the time is, and what becomes of those who send and wait.
//
// It is asked on slow paths only. The fast path of a sender sees a driver in the run token
// alone: in a graph that is not live nobody ever finds it free.
type driver interface {
	// prepare is called once, when the graph is compiled and no location is started.
	prepare(g *Graph)

	// start runs a location that has been compiled: it makes the first step, or leaves that
	// to whoever makes the steps.
	start(s *Site)

	// now returns the time in nanoseconds since the history began, never 0, for a step whose
	// plan does not say it. The holder of the token asks.
	now(s *Site) int64

	// perform makes the step of a plan and publishes what it gave. It reports false if the
	// step failed. The holder of the token calls it.
	perform(s *Site, p *Plan) (ok bool)

	// arm has the location wake up at its earliest deadline. The holder of the token calls
	// it after a step that set a timer, or fired some.
	arm(s *Site)

	// settle makes up to n steps with what has been accepted (all of it if n < 0), then
	// gives the token away. It is called with mu held by the holder of the token and returns
	// with mu free. It reports false if a step that it made failed: the token then stays
	// held, so that nothing of that step is ever published.
	settle(s *Site, n int) (ok bool)

	// handOver passes the token to somebody who has nothing else to do. It is called with mu
	// held by the holder of the token and returns with mu free.
	handOver(s *Site)

	// admit says what a sender does with a record who did not get the token at once. It may
	// wait for room. It is called and returns with mu held.
	admit(ctx context.Context, d *door) (admission, error)

	// wait returns when w was signalled, with the cause when ctx ends, or with another error
	// if w waits in vain.
	wait(ctx context.Context, s *Site, w *waiter) error

	// deliver hands on what a step gave to an exchange, a cycle or calls.
	deliver(x delivery)

	// arrived says that records were appended to the queue of the location to which l goes,
	// whose mu is held, and unlocks that.
	arrived(l *link)

	// bounded reports whether an output over its bound keeps its location from running.
	bounded() bool

	// retire is called with mu held when a location has ended.
	retire(s *Site)

	// ask has the figures of the location copied by the holder of the token, who closes the
	// channel that ask returns then, or copies them itself and returns nil. It is called
	// with mu held and unlocks it.
	ask(s *Site) <-chan struct{}

	// origin returns the time at which the history of the location began. The holder of the
	// token asks, or anybody with mu held while there is none.
	origin(s *Site) time.Time

	// ended waits until the graph has ended and returns why. If that is not by itself and
	// ctx ends first, it ends the graph.
	ended(ctx context.Context, g *Graph) error
}

// An admission is what a sender does with a record.
type admission int

const (
	refused   admission = iota
	leave               // leave it in the input's queue and have somebody run the location
	run                 // run the location: the sender has the token
	elsewhere           // send it to where the history is
)
