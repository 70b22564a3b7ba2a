package durable

import (
	"fmt"
	"sort"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// A layout maps locations to partitions of the journal. The partitions of a location are consecutive, and
// locations follow in the order in which the program makes them.
type layout struct {
	first []int // by location: its first partition; the last element is the number of all partitions
}

// layoutOf returns the layout of a flow: a location whose keys are divided has n partitions, others have one.
func layoutOf(g *engine.Graph, n int) (layout, error) {
	if g.NumLocations() == 0 {
		return layout{}, fmt.Errorf("durable: the flow has no location")
	}
	l := layout{first: make([]int, 1, g.NumLocations()+1)}
	for i := range g.NumLocations() {
		size := 1
		if g.Divided(i) {
			size = n
		}
		l.first = append(l.first, l.first[i]+size)
	}
	return l, nil
}

// total returns the number of partitions of the journal.
func (l layout) total() int { return l.first[len(l.first)-1] }

// place returns the location of a partition of the journal, and the number of the partition there.
func (l layout) place(partition int) (location, number int) {
	location = sort.Search(len(l.first)-2, func(i int) bool { return l.first[i+1] > partition })
	return location, partition - l.first[location]
}

// of returns the partition of the journal for a placement key of a location.
func (l layout) of(location int, key []byte) int {
	first, n := l.all(location)
	return first + engine.PartitionOf(key, n)
}

// all returns the first partition of a location, and how many it has.
func (l layout) all(location int) (first, n int) {
	return l.first[location], l.first[location+1] - l.first[location]
}

// ofRecord returns the partition of a record: that of its key, or of its value if it has no key.
func (c *core) ofRecord(location int, r *codec.Record) int {
	if len(r.Key) == 0 {
		return c.layout.of(location, r.Value)
	}
	return c.ofKey(location, r.Op, r.Key)
}

// ofStored is ofKey for a key that is part of the history. If its method Affinity panics, the key is placed by its encoding, where a
// function that uses it fails and the record is quarantined: a panic here would end the process, and again after each restart.
func (c *core) ofStored(location int, op int32, key []byte) (p int) {
	defer func() {
		if recover() != nil {
			p = c.layout.of(location, key)
		}
	}()
	return c.ofKey(location, op, key)
}

// ofKey returns the partition of a key of an operator: that of its affinity, or of the key if it has none.
func (c *core) ofKey(location int, op int32, key []byte) int {
	place := c.facade.Locations[location].Ops[op].Place
	if _, n := c.layout.all(location); place == nil || n == 1 {
		return c.layout.of(location, key)
	}
	by, err := place(c.opts.Codec, key)
	if err != nil { // the owner of the partition cannot decode it either, and reports that
		return c.layout.of(location, key)
	}
	return c.layout.of(location, []byte(by))
}
