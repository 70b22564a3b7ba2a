package simulate

import (
	"slices"

	"github.com/millrace/millrace/internal/engine"
)

// A schedule says which component of a simulated graph with edges steps next.
//
// A component that sends to others comes to rest before they step: what waits in a queue
// and is not taken is as good as not sent, so nothing is missed that can be seen at
// one location. It would be missed when the one who drives sends something because of
// what he saw downstream, while upstream there was something left to do. So, as long
// as something can be sent, the chooser may hold a component up: those behind it step
// first, until one of them shows something.
//
// Parts that send to each other in a circle have no first; the chooser says each time
// which of them steps.
type schedule struct {
	sccs  []*scc
	held  int  // groups that are held up
	spent bool // no group is held up until something is sent or shown
	sent  int  // when that was decided
	shown int
}

// An scc is some components that send to each other in circles, or one component.
type scc struct {
	members []member
	first   int    // number of the first of them
	after   []*scc // those that get something from it, over others or not
	held    bool
}

// A member is a component at its location.
type member struct {
	loc       *engine.Location
	component *engine.Component
}

// chart returns the course of a graph.
func chart(g *engine.Graph) *schedule {
	var stops []member
	at := make(map[*engine.Component]int)
	for _, s := range g.Locations {
		for _, p := range s.Components {
			at[p] = len(stops)
			stops = append(stops, member{s, p})
		}
	}
	next := make([][]int, len(stops))
	for _, l := range g.Edges.All {
		i := at[l.Src.Find()]
		next[i] = append(next[i], at[l.Dst.Find()])
	}
	reach := make([][]int, len(stops))
	for i := range stops {
		reach[i] = slices.Clone(next[i])
		for k := 0; k < len(reach[i]); k++ {
			for _, j := range next[reach[i][k]] {
				if !slices.Contains(reach[i], j) {
					reach[i] = append(reach[i], j)
				}
			}
		}
	}
	c := &schedule{}
	placed := make([]bool, len(stops))
	both := func(i, j int) bool { return slices.Contains(reach[i], j) && slices.Contains(reach[j], i) }
	blocked := func(i int) bool { // somebody upstream, and not in a circle with i, is left
		for j := range stops {
			if !placed[j] && slices.Contains(reach[j], i) && !both(i, j) {
				return true
			}
		}
		return false
	}
	for left := len(stops); left > 0; {
		i := 0
		for placed[i] || blocked(i) {
			i++
		}
		g := &scc{first: i}
		for j := range stops {
			if j == i || both(i, j) {
				g.members = append(g.members, stops[j])
				placed[j] = true
				left--
			}
		}
		for _, before := range c.sccs {
			if slices.Contains(reach[before.first], i) {
				before.after = append(before.after, g)
			}
		}
		c.sccs = append(c.sccs, g)
	}
	return c
}

// letGo stops holding groups up.
func (c *schedule) letGo() {
	for _, g := range c.sccs {
		g.held = false
	}
	c.held = 0
}

// stepLinked makes one step of a graph with edges.
func (d *Simulation) stepLinked() bool {
	c := d.schedule
	if c.sent != d.sent || c.shown != d.shown {
		c.sent, c.shown, c.spent = d.sent, d.shown, false
		c.letGo()
	}
	for {
		i := slices.IndexFunc(c.sccs, d.may)
		if i < 0 && c.held == 0 {
			return false
		}
		if i < 0 {
			c.letGo()
			c.spent = true
			continue
		}
		next := c.sccs[i]
		if c.spent || !open(d.g) || !slices.ContainsFunc(next.after, d.may) || d.choose.Choose(2) == 0 {
			d.stepSCC(next)
			return true
		}
		s := next.members[0].loc
		d.g.Note(func() string { return "hold " + s.Name + " up" })
		next.held = true
		c.held++
	}
}

// stepSCC makes a step in one part of a group.
func (d *Simulation) stepSCC(of *scc) {
	can := slices.DeleteFunc(slices.Clone(of.members), func(x member) bool { return !d.ready(x) })
	i := 0
	if len(can) > 1 {
		i = d.choose.Choose(len(can))
	}
	d.stepComponent(can[i].loc, can[i].component)
	d.stepped(can[i].loc)
}

// may reports whether a part of the group has something to do and is not held up.
func (d *Simulation) may(g *scc) bool { return !g.held && slices.ContainsFunc(g.members, d.ready) }

// ready reports whether a component has something to do.
func (d *Simulation) ready(x member) bool {
	return slices.ContainsFunc(x.component.Regions, func(r *engine.Region) bool { return r.News }) || len(d.lanes(x.loc, x.component)) > 0
}

// open reports whether anything can be sent.
func open(g *engine.Graph) bool {
	return slices.ContainsFunc(g.Locations, func(s *engine.Location) bool { return !s.Closing })
}
