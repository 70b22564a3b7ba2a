package engine

import "slices"

// A course says which part of a driven graph with links steps next.
//
// A part that sends to others comes to rest before they step: what waits in a queue
// and is not taken is as good as not sent, so nothing is missed that can be seen at
// one site. It would be missed when the one who drives sends something because of
// what he saw downstream, while upstream there was something left to do. So, as long
// as something can be sent, the chooser may hold a part up: those behind it step
// first, until one of them shows something.
//
// Parts that send to each other in a circle have no first; the chooser says each time
// which of them steps.
type course struct {
	groups []*group
	held   int  // groups that are held up
	spent  bool // nothing is held up any more until something is sent or shown
	sent   int  // when that was decided
	shown  int
}

// A group is some parts that send to each other in circles, or one part.
type group struct {
	stops []stop
	first int      // number of the first of them
	after []*group // those that get something from it, over others or not
	held  bool
}

// A stop is a part at its site.
type stop struct {
	site *Site
	part *part
}

// chart returns the course of a graph.
func (g *Graph) chart() *course {
	var stops []stop
	at := make(map[*part]int)
	for _, s := range g.sites {
		for _, p := range s.parts {
			at[p] = len(stops)
			stops = append(stops, stop{s, p})
		}
	}
	next := make([][]int, len(stops))
	for _, l := range g.links.all {
		i := at[l.src.find()]
		next[i] = append(next[i], at[l.dst.find()])
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
	c := &course{}
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
		g := &group{first: i}
		for j := range stops {
			if j == i || both(i, j) {
				g.stops = append(g.stops, stops[j])
				placed[j] = true
				left--
			}
		}
		for _, before := range c.groups {
			if slices.Contains(reach[before.first], i) {
				before.after = append(before.after, g)
			}
		}
		c.groups = append(c.groups, g)
	}
	return c
}

// letGo holds nothing up any more.
func (c *course) letGo() {
	for _, g := range c.groups {
		g.held = false
	}
	c.held = 0
}

// stepLinked makes one step of a graph with links.
func (d *Simulation) stepLinked() bool {
	c := d.course
	if c.sent != d.sent || c.shown != d.shown {
		c.sent, c.shown, c.spent = d.sent, d.shown, false
		c.letGo()
	}
	for {
		i := slices.IndexFunc(c.groups, d.may)
		if i < 0 && c.held == 0 {
			return false
		}
		if i < 0 {
			c.letGo()
			c.spent = true
			continue
		}
		next := c.groups[i]
		if c.spent || !d.g.open() || !slices.ContainsFunc(next.after, d.may) || d.choose.Choose(2) == 0 {
			d.stepGroup(next)
			return true
		}
		s := next.stops[0].site
		d.g.note(func() string { return "hold " + s.name + " up" })
		next.held = true
		c.held++
	}
}

// stepGroup makes a step in one part of a group.
func (d *Simulation) stepGroup(of *group) {
	can := slices.DeleteFunc(slices.Clone(of.stops), func(x stop) bool { return !d.ready(x) })
	i := 0
	if len(can) > 1 {
		i = d.choose.Choose(len(can))
	}
	d.stepPart(can[i].site, can[i].part)
	d.stepped(can[i].site)
}

// may reports whether a part of the group has something to do and is not held up.
func (d *Simulation) may(g *group) bool { return !g.held && slices.ContainsFunc(g.stops, d.ready) }

// ready reports whether a part has something to do.
func (d *Simulation) ready(x stop) bool {
	return slices.ContainsFunc(x.part.regions, func(r *Region) bool { return r.news }) || len(d.lanes(x.site, x.part)) > 0
}

// open reports whether anything can be sent.
func (g *Graph) open() bool {
	return slices.ContainsFunc(g.sites, func(s *Site) bool { return !s.closing })
}
