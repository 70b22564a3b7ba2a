package sim

import (
	"fmt"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// Faults says how many faults of each kind may happen in a schedule, at most. The zero value has
// none. Schedules with fewer faults are tried as well, so a program that is proved with two lost
// messages is also proved with one and with none. The story of a failed schedule lists each fault
// where it happens.
//
// # Messages
//
// Messages are the elements and entries that one location sends to another, including members of a
// location: what [dataflow.Send], keyedstream.Send, keyedsingleton.Send and keyedstream.Divide move.
// What the test sends to a port is not a message. The type of a stream says that each element comes
// once. That is not so on a link that repeats messages: the program has to find repeats itself. An
// entry of a keyed singleton comes once for its key on any link, so it may be lost but is never
// repeated.
type Faults struct {
	Lose   int // messages that never arrive
	Repeat int // messages that arrive twice, the second directly after the first unless it is delayed
	Delay  int // messages that any number of later messages overtake, on a link that keeps an order

	// Isolations is how often a location is cut off from all other locations, including other
	// members of its own type, until it is connected again. Messages that arrive in the meantime are
	// lost, in both directions. A message may also be on its way for long and arrive afterwards. The
	// ports of the location can be used all the time.
	Isolations int

	// Halts is how many locations stop for ever, between two of their moves, and lose their state
	// (crash-stop). What they have sent still arrives. What is sent to them is lost, and a caller
	// that uses their ports receives [ErrHalted].
	Halts int

	// Crashes is how often a location that keeps its state crashes and continues with what it has
	// kept (crash-recovery). Every location of package durable keeps its state. Moves are kept as
	// they are made, and so are deadlines and the clock. The only difference is therefore that a
	// call of a MapAsync is made again if its answer was not kept; only one answer to it counts. Of
	// a [dataflow.Cluster] one partition crashes, which may hold any of the keys.
	Crashes int

	// LostAcks is how often a sender at a port receives [ErrUnknown], while what it has sent is
	// either kept or lost. That is how a client of a durable flow sees a crash or a lost connection.
	LostAcks int

	// Links names the links whose messages are lost, repeated and delayed, such as "Server→Worker":
	// the names of the types of both locations. The name of one of several members is followed by
	// its number: "Server→Worker 2". Nil means all links.
	Links []string

	// Locations names the locations that are isolated, halt, crash and lose acknowledgements, such
	// as "Worker" or "Worker 2". Nil means all.
	Locations []string
}

// ErrHalted is returned to a caller that uses a port of a location that has stopped for ever.
var ErrHalted = simulate.ErrHalted

// ErrUnknown is returned to a sender that is not told whether what it has sent was kept.
var ErrUnknown = engine.ErrUnknown

// Inject sets the faults that may happen in this schedule. It must be called before [Sim.Start], in
// the same way in every schedule. It panics if a number is negative or the flow was started. Start
// panics if a named link or location does not exist, and at level [Engine], which has no faults. A
// recorded run has the faults of the recording.
func (s *Sim) Inject(f Faults) {
	if s.simulation != nil {
		s.simulation.Inject(simulate.Faults(f))
	}
}

// Retry sets how often records of a [dataflow.RetriedInput] come again in this schedule, at most.
// The default is one if all schedules are tried, and three otherwise: each further repeat multiplies
// the schedules. Records come again only where an AssumeOnce or an output can observe it. Retry must
// be called before [Sim.Start], in the same way in every schedule. It panics if n is negative.
func (s *Sim) Retry(n int) {
	if n < 0 {
		panic(fmt.Sprintf("sim: Retry(%d): a record comes again some times, or never", n))
	}
	if s.simulation != nil {
		s.simulation.Repeat(n)
	}
}

// CallsShareNothing asserts that the functions of asynchronous calls of different keys share nothing
// outside the flow. The order of such calls is then not tried, which would otherwise multiply the
// executions. The assertion is not checked: if calls do share something, such as a counter,
// schedules are missed in which they come in another order.
func (s *Sim) CallsShareNothing() {
	if s.simulation != nil {
		s.simulation.CallsShareNothing()
	}
}
