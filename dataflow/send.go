package dataflow

import (
	"fmt"
	"reflect"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/port"
)

// Send returns the elements of s at another location, in the order of s, each as often as
// it is in s. When they arrive there is not determined: each is a record of the other
// location's history, so the result is never bounded.
//
// Nothing is lost. A location whose elements fill the queue of another, see
// [Options].Queue, does not run until the other has taken them, so a slow location slows
// down those that send to it. Locations may send to each other in cycles: if all of a
// cycle wait, the one that the others wait for continues. A location ends when its own
// inputs are closed, everything was handled, and those that send to it have ended. The
// locations of a cycle end together.
//
// The partitions of a [Cluster] have no order between them, so a stream from a Cluster
// must have no order: see [WeakenOrder].
func Send[T any, L, To Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], to To,
) Stream[T, To, bounds.Unbounded, O, R] {
	const op = "dataflow.Send"
	n, location := engine.Made(engine.NodeOf(s), op), placeOf(to, op).Destination(op)
	if !unordered[O]() && n.Location().Partitioned() {
		engine.Misuse(op, "%s is a cluster, whose partitions have no order between them: weaken the order of the stream with dataflow.WeakenOrder", n.Location().Name)
	}
	move := engine.NewOp(location, op, "")
	move.Shuffled = unordered[O]()
	return newStream[T, To, bounds.Unbounded, O, R](port.Exchange(n, move))
}

// unordered reports whether O says that elements have no order.
func unordered[O Order]() bool {
	_, ordered := any(*new(O)).(TotalOrder)
	return !ordered
}

// Members returns n locations of one type. Each has its own history, queue and loop, so
// they run in parallel on as many processors. A program builds their operators in a loop:
//
//	workers := dataflow.Members[Worker](flow, 2)
//	for i, mine := range keyedstream.Divide(orders, workers) {
//		…
//	}
//
// The compiler cannot distinguish members: combining collections of two members panics
// while the flow is built. Calling Members again with the same n returns the same
// locations. A type that has members is not a location itself, so [At] refuses it.
func Members[L Location, P Placeable[L]](f *Flow, n int) []L {
	const op = "dataflow.Members"
	tag := reflect.TypeFor[L]()
	if graphOf(f).Kept() {
		engine.Misuse(op, "a durable flow has no members: make %s a Cluster, which is divided into partitions", tag.Name())
	}
	if n < 1 {
		engine.Misuse(op, "%d members: a location has at least one", n)
	}
	if f.byTag[tag] != nil {
		engine.Misuse(op, "%s is a location already, made with dataflow.At", tag.Name())
	}
	locations := f.members[tag]
	if locations == nil {
		for i := range n {
			locations = append(locations, graphOf(f).NewLocation(fmt.Sprintf("%s %d", tag.Name(), i+1)))
		}
		f.members[tag] = locations
		f.locations = append(f.locations, locations...)
	}
	if len(locations) != n {
		engine.Misuse(op, "%s has %d members already, not %d", tag.Name(), len(locations), n)
	}
	all := make([]L, n)
	for i, s := range locations {
		P(&all[i]).bind(place{engine.Place{Type: tag, Location: s}})
	}
	return all
}
