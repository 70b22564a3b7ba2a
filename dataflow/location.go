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

// A place is where a location is, as [At] and [Members] tell it.
type place struct{ in engine.Place }

// A Process is a location with one instance. A program embeds it in a type of its
// own, which tells its locations apart:
//
//	type Server struct{ dataflow.Process }
//
//	server := dataflow.At[Server](flow)
//
// A process is single-threaded: the functions given to its operators never run at
// the same time, and need no locks for what only they use.
type Process process

func (Process) place()           {}
func (p *Process) bind(at place) { bind(p, at) }

// A Cluster is a location whose keys may be divided between partitions, each with a
// history, a clock and a state of its own, on as many machines as there are. A program
// embeds it like a [Process]. In one process, where a flow is run by [Start], it has one
// partition, and is the same as a Process.
//
// What a program sees of a partition is what it would see of a process that gets only
// the partition's keys: streams, singletons and counts are those of the partition.
// Package durable divides keyed inputs by key, and plain inputs by element.
//
// A key whose type has a method
//
//	func (k Key) Affinity() string
//
// is placed by what that returns, and any other key by its encoding. So keys of several types are
// in one partition if they have one affinity: the seats of a room and the room, the calls of a
// session and the session. What keyedstream.Rekey makes of such a key can then be joined,
// and be read by an output, under any key with the same affinity. A [Pair], such as keyedstream.PrefixKey makes,
// has the affinity of its Second, or if that has none of its First. The method has to depend on the key alone,
// and is part of a history: one whose keys were placed in another way is refused.
//
// An entry that an output gets in another partition than that of its key could not be read by that key. Where its key has
// an affinity, package durable quarantines the record that it was made of, and package sim
// reports it.
type Cluster cluster

func (Cluster) place() {}
func (c *Cluster) bind(at place) {
	bind(c, at)
	at.in.Location.Divide()
}

// At returns the location L of the flow. It is the only place where a program names
// a location: everything else infers it from the collections. Calling it twice for
// one type returns the same location.
func At[L Location, P interface {
	*L
	bind(place)
}](f *Flow) L {
	var at L
	graph, tag := graphOf(f), reflect.TypeFor[L]()
	site, ok := f.byTag[tag]
	if f.members[tag] != nil {
		engine.Misuse("dataflow.At", "%s has members: take the one that is meant from dataflow.Members", tag.Name())
	}
	if !ok {
		site = graph.NewLocation(tag.Name())
		f.byTag[tag] = site
		f.sites = append(f.sites, site)
	}
	P(&at).bind(place{engine.Place{Type: tag, Location: site}})
	return at
}

// A Tick is the inside of a slice at L; see package slice.
type Tick[L Location] tick[L]

func (Tick[L]) place() {}
