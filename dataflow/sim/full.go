package sim

import "fmt"

// Buffer sets how many elements that nobody has read an output may hold, as [dataflow.Options].Buffer does in production. A
// location with an output that holds more makes no step until readers have brought that down to n/2. Until then a client that
// waits for another output of the location waits as well; if nobody reads, it receives a [dataflow.BlockedError] that names the
// full output. At level [Types] the step that fills an output may include any other record, or end at once. A location also stops
// when what it sends fills the queue of another location, see [Sim.Queue], until that location takes something. It does not stop
// if the other location waits for it.
//
// Without Buffer there is no limit, and the exploration fails at its end if nobody reads an output that holds more than
// production allows. Asynchronous calls that wait for their turn stop no location of a simulation.
//
// Buffer must be called before anything is built, in the same way in every schedule. It panics otherwise, or if n is not
// positive. A recorded run stops nowhere.
func (s *Sim) Buffer(n int) {
	switch {
	case n <= 0:
		panic(fmt.Sprintf("sim: Buffer(%d): an output holds one element, or more", n))
	case len(graphOf(s.flow).Locations) > 0:
		panic("sim: Buffer: it is called before the flow has a location")
	}
	if s.simulation != nil {
		s.simulation.Bound(n)
	}
}

// Queue sets how many records may wait at a location, as [dataflow.Options].Queue does in production. A client that sends to a
// full queue waits for room. The default is 4,096.
//
// Queue must be called before the flow is started, in the same way in every schedule. It panics if n is not positive.
func (s *Sim) Queue(n int) {
	if n <= 0 {
		panic(fmt.Sprintf("sim: Queue(%d): one record may wait, or more", n))
	}
	graphOf(s.flow).Settings.Queue = n
}
