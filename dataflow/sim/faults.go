package sim

import (
	"fmt"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// Faults are how many faults of each kind may happen in a schedule, at most. The zero value
// has none. A schedule has fewer as well, so a program that is proved with two lost messages
// is proved with one and with none. Each fault is in the story of a schedule that fails, where
// it happens.
//
// # Messages
//
// Messages are the elements and entries that one location sends to another one, members of a
// location included: what [dataflow.Send], keyedstream.Send, keyedsingleton.Send and
// keyedstream.Divide move. What the test sends to a port is no message. Streams say
// in their types that each element comes once, which is not so when a link repeats messages:
// the program has to find repeats itself. An entry of a keyed singleton comes once for its key
// on any link, so it may be lost and not repeated.
type Faults struct {
	Lose   int // messages that never come
	Repeat int // messages that come twice, one right behind the other unless the second is delayed
	Delay  int // messages that are overtaken, where a link keeps an order, by any number of those behind

	// Isolations is how often a location is cut off from all other ones, members of its own
	// type included, and later no longer is. Messages that come in the meantime are lost, in both
	// directions; a message may also be on its way for long, and come afterwards. Ports of the
	// location can be used all the time.
	Isolations int

	// Halts is how many locations stop for ever, between two of their moves, and remember
	// nothing (crash-stop). What they have sent still comes. What is sent to them is lost, and
	// whoever uses their ports has the error [ErrHalted].
	Halts int

	// Crashes is how often a location crashes that keeps its state, as every location of package
	// durable does, and goes on with what it has kept (crash-recovery). Its moves are kept as they
	// are made, and deadlines and clock as well; so what differs is that a call of a MapAsync is
	// made again if its answer was not kept. Only one answer to it counts. Of a [dataflow.Cluster]
	// one partition crashes, which has any of the keys.
	Crashes int

	// LostAcks is how often a sender at a port has [ErrUnknown]: what it has sent is kept, or is
	// not. That is what a crash or a lost connection is to a client of a durable flow.
	LostAcks int

	// Links names the links whose messages are lost, repeated and delayed, such as
	// "Server→Worker": the names of the types of both locations. One of several members
	// has a number behind its name: "Server→Worker 2". Nil means all links.
	Links []string

	// Locations names the locations that are isolated, halt, crash and lose acknowledgements, such
	// as "Worker" or "Worker 2". Nil means all.
	Locations []string
}

// ErrHalted is the error of a caller that uses a port of a location that has stopped for ever.
var ErrHalted = simulate.ErrHalted

// ErrUnknown is the error of a sender that is not told whether what it has sent was kept.
var ErrUnknown = engine.ErrUnknown

// Inject has faults happen in this schedule. It is called before [Sim.Start], in every schedule
// alike. It panics if a number is negative or the flow was started; the start panics if there is
// no link or location of a name that is given, and at level [Engine], which has no faults. A
// recorded run has the faults that it had.
func (s *Sim) Inject(f Faults) {
	if s.simulation != nil {
		s.simulation.Inject(simulate.Faults(f))
	}
}

// Retry says how often records of a [dataflow.RetriedInput] come again in this schedule, at most. By
// default one does where all schedules are tried, and three do in others: each more multiplies the
// schedules. They come again only where an AssumeOnce or an output can tell. It is called before
// [Sim.Start], in every schedule alike, and panics if n is negative.
func (s *Sim) Retry(n int) {
	if n < 0 {
		panic(fmt.Sprintf("sim: Retry(%d): a record comes again some times, or never", n))
	}
	if s.simulation != nil {
		s.simulation.Repeat(n)
	}
}

// CallsShareNothing says that the functions of asynchronous calls of different keys share nothing
// outside of the flow. So the order of such calls is not tried, which multiplies the executions
// otherwise. It is believed: if calls share something, such as a counter, schedules are missed in
// which they come in another order.
func (s *Sim) CallsShareNothing() {
	if s.simulation != nil {
		s.simulation.CallsShareNothing()
	}
}
