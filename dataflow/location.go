package dataflow

import (
	"reflect"

	"github.com/millrace/millrace/internal/engine"
)

// A Location is a place where collections live: a tag type that embeds [Process], or
// a [Tick] of one, inside a slice. Collections can be combined only if they live at
// the same location.
type Location interface {
	place()
}

// Placeable is satisfied by a pointer to a type that embeds a [Process] or a [Cluster] and nothing else that is a
// location: [At] and [Members] make the locations of such a type. The compiler finds the pointer, so a caller
// never writes it.
type Placeable[L any] interface {
	*L
	bind(place)
}

// A place identifies a location, as passed from [At] and [Members].
type place struct{ in engine.Place }

// A Process is a location with one instance. A program embeds it in a type of its own, which
// distinguishes its locations:
//
//	type Server struct{ dataflow.Process }
//
//	server := dataflow.At[Server](flow)
//
// A process is single-threaded: the functions given to its operators never run at the same
// time, and need no locks for data that only they use.
type Process process

func (Process) place()           {}
func (p *Process) bind(at place) { bind(p, at) }

// A Cluster is a location whose keys may be divided among partitions, on any number of
// machines. Each partition has its own history, clock and state. A program embeds it like a
// [Process]. In one process, where a flow is run by [Start], it has one partition and is the
// same as a Process.
//
// The program at a partition sees what it would see at a process that receives only the
// partition's keys: streams, singletons and counts are those of the partition. Package durable
// divides keyed inputs by key, and plain inputs by element.
//
// A key is placed by its encoding, unless its type has a method
//
//	func (k Key) Affinity() string
//
// Then the result of that method decides. So keys of several types are in one partition if they
// have one affinity: the seats of a room and the room, the calls of a session and the session.
// Values that keyedstream.Rekey moves to another key with the same affinity can then be joined
// there, and read by an output. A [Pair], such as keyedstream.PrefixKey makes, has the affinity
// of its Second, or of its First if Second has none. The method must depend on the key alone.
// It is part of a history: a history whose keys were placed in another way is refused.
//
// An entry that reaches an output in another partition than that of its key could not be read
// by that key. Package durable quarantines the record that caused the entry. Package sim, where
// there is one partition, reports it if the key has an affinity.
type Cluster cluster

func (Cluster) place() {}
func (c *Cluster) bind(at place) {
	bind(c, at)
	at.in.Location.Divide()
}

// At returns the location L of the flow. A program names a location only here; everything else
// infers it from the collections. Calling At twice for one type returns the same location.
func At[L Location, P Placeable[L]](f *Flow) L {
	var at L
	graph, tag := graphOf(f), reflect.TypeFor[L]()
	location, ok := f.byTag[tag]
	if f.members[tag] != nil {
		engine.Misuse("dataflow.At", "%s has members: take the one that is meant from dataflow.Members", tag.Name())
	}
	if !ok {
		location = graph.NewLocation(tag.Name())
		f.byTag[tag] = location
		f.locations = append(f.locations, location)
	}
	P(&at).bind(place{engine.Place{Type: tag, Location: location}})
	return at
}

// A Tick is the inside of a slice at L; see package slice.
type Tick[L Location] tick[L]

func (Tick[L]) place() {}
