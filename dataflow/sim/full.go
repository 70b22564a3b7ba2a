package sim

import "fmt"

// Buffer has outputs of elements hold n elements that nobody has read, as those of production hold
// [dataflow.Options].Buffer. A location with an output that holds more makes no step until readers have
// brought that down to n/2. Until then a client that waits for another output of the location waits as well, and
// if nobody reads it is given a [dataflow.BlockedError] that names the output which is full. At level [Types] the
// step that fills an output may have any other record in it, or end at once. A location also stops when what it
// sends fills the queue of another one, see [Sim.Queue], until that takes something, unless that waits for it.
//
// Without Buffer any number waits, and the exploration fails at its end if nobody reads an output
// that holds more than production's. Asynchronous calls that wait for their turn stop no location of
// a simulation.
//
// It is called before anything is built, in every schedule alike, and panics otherwise, or if n is not
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

// Queue has n records wait at a location at most, as [dataflow.Options].Queue does in production. A client
// that sends another one waits for room. Without a call of Queue, 4,096 may wait.
//
// It is called before the flow is started, in every schedule alike, and panics if n is not positive.
func (s *Sim) Queue(n int) {
	if n <= 0 {
		panic(fmt.Sprintf("sim: Queue(%d): one record may wait, or more", n))
	}
	graphOf(s.flow).Settings.Queue = n
}
