package dataflow

import (
	"reflect"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/seal"
)

// A Location is a place where collections live: a tag type that embeds [Process], or
// a [Tick] of one, inside a slice. Collections can be combined only if they live at
// the same location.
type Location interface {
	place() place
}

// A place is where a node is made: at a site, perhaps inside a slice.
type place struct {
	site   *engine.Site
	region *engine.Region
}

// check panics if the location was not made by At.
func (p place) check(op string) place {
	if p.site == nil {
		engine.Misuse(op, "the location is a zero value: make it with dataflow.At")
	}
	return p
}

// A Process is a location with one instance. A program embeds it in a type of its
// own, which tells its locations apart:
//
//	type Server struct{ dataflow.Process }
//
//	server := dataflow.At[Server](flow)
//
// A process is single-threaded: the functions given to its operators never run at
// the same time, and need no locks for what only they use.
type Process struct{ site *engine.Site }

func (p Process) place() place         { return place{site: p.site} }
func (p *Process) bind(s *engine.Site) { p.site = s }

// A Cluster is a location whose keys may be divided between partitions, each with a
// history, a clock and a state of its own, on as many machines as there are. A program
// embeds it like a [Process]. In one process, where a flow is run by [Start], it has one
// partition, and is the same as a Process.
//
// What a program sees of a partition is what it would see of a process that gets only
// the partition's keys: streams, singletons and counts are those of the partition.
// Package durable divides keyed inputs by key, and plain inputs by element.
type Cluster struct{ site *engine.Site }

func (c Cluster) place() place { return place{site: c.site} }
func (c *Cluster) bind(s *engine.Site) {
	c.site = s
	s.Divide()
}

// At returns the location L of the flow. It is the only place where a program names
// a location: everything else infers it from the collections. Calling it twice for
// one type returns the same location.
func At[L Location, P interface {
	*L
	bind(*engine.Site)
}](f *Flow) L {
	var at L
	tag := reflect.TypeFor[L]()
	site, ok := f.byTag[tag]
	if f.members[tag] != nil {
		engine.Misuse("dataflow.At", "%s has members: take the one that is meant from dataflow.Members", tag.Name())
	}
	if !ok {
		site = f.graph.NewSite(tag.Name())
		f.byTag[tag] = site
		f.sites = append(f.sites, site)
	}
	P(&at).bind(site)
	return at
}

// A Tick is the inside of a slice at L; see package slice.
type Tick[L Location] struct {
	outer  L
	region *engine.Region
}

func (t Tick[L]) place() place { return place{t.outer.place().site, t.region} }

// NewTick is for package slice; see package internal/seal.
func NewTick[L Location](_ seal.Key, at L) Tick[L] {
	p := at.place().check("slice.At")
	if p.region != nil {
		engine.Misuse("slice.At", "%s is a slice already, and slices do not nest", p.region)
	}
	return Tick[L]{at, engine.NewSlice(p.site)}
}

// Unseal is for package slice; see package internal/seal.
func (t Tick[L]) Unseal(_ seal.Key, op string) *engine.Region {
	t.place().check(op)
	return t.region
}

// Site is for this module's inputs; see package internal/seal.
func Site[L Location](_ seal.Key, at L, op string) *engine.Site {
	p := at.place().check(op)
	if p.region != nil {
		engine.Misuse(op, "an input comes from outside and cannot be inside %s", p.region)
	}
	return p.site
}
