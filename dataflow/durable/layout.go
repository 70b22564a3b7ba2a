package durable

import (
	"fmt"
	"sort"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// A layout says which partitions of the journal are those of which location: they are
// next to each other, one location after the other in the order in which a program
// makes them.
type layout struct {
	first []int // partition of the journal, by location, and how many there are
}

// layoutOf returns the layout of a flow: a location whose keys are divided has n
// partitions, others have one.
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

// total returns how many partitions the journal has.
func (l layout) total() int { return l.first[len(l.first)-1] }

// place returns of which location a partition of the journal is, and which one there.
func (l layout) place(partition int) (site, number int) {
	site = sort.Search(len(l.first)-2, func(i int) bool { return l.first[i+1] > partition })
	return site, partition - l.first[site]
}

// of returns the partition of the journal for what a key of a location is placed by.
func (l layout) of(site int, key []byte) int {
	first, n := l.all(site)
	return first + engine.PartitionOf(key, n)
}

// all returns the first partition of the journal for a location, and how many there are.
func (l layout) all(site int) (first, n int) {
	return l.first[site], l.first[site+1] - l.first[site]
}

// ofRecord returns the partition of a record: that of its key, or of its value if it has
// none.
func (c *core) ofRecord(site int, r *codec.Record) int {
	if len(r.Key) == 0 {
		return c.layout.of(site, r.Value)
	}
	return c.ofKey(site, r.Op, r.Key)
}

// ofKey returns the partition of a key of an operator: that of its affinity, or of the key if it has none.
func (c *core) ofKey(site int, op int32, key []byte) int {
	place := c.facade.Locations[site].Ops[op].Place
	if _, n := c.layout.all(site); place == nil || n == 1 {
		return c.layout.of(site, key)
	}
	by, err := place(c.opts.Codec, key)
	if err != nil { // whoever owns the partition cannot read it either, and says so
		return c.layout.of(site, key)
	}
	return c.layout.of(site, []byte(by))
}
