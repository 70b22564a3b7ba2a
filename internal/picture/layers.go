package picture

// A grid is the layout of one column: its boxes and the bends of its lines, by layer.
type grid struct {
	picture *Picture
	boxes   []int // indexes in the picture
	layers  [][]*place
	bends   map[int][]*place // by line
}

// A place is a box, or a bend of a line that passes a layer.
type place struct {
	box      int // or -1
	group    int
	w, x     float64
	up, down []*place
	pos      int // in its layer
}

func newGrid(p *Picture, column int) *grid {
	g := &grid{picture: p, bends: make(map[int][]*place)}
	for i := range p.Boxes {
		if p.Boxes[i].Column == column {
			g.boxes = append(g.boxes, i)
		}
	}
	g.assign()
	g.build()
	return g
}

// inside reports whether a line stays in the column and leads down.
func (g *grid) inside(l Line, column int) bool {
	return !l.Back && l.From != l.To && g.picture.Boxes[l.From].Column == column && g.picture.Boxes[l.To].Column == column
}

// assign sets the layer of each box.
func (g *grid) assign() {
	if len(g.boxes) == 0 {
		return
	}
	boxes := g.picture.Boxes
	column := boxes[g.boxes[0]].Column
	ups, downs := make(map[int][]int), make(map[int][]int)
	for _, l := range g.picture.Lines {
		if g.inside(l, column) {
			ups[l.To], downs[l.From] = append(ups[l.To], l.From), append(downs[l.From], l.To)
		}
	}
	const seen, done = 1, 2
	state := make(map[int]int)
	var depth func(i int) int // length of the longest path from above
	depth = func(i int) int {
		switch state[i] {
		case seen:
			return 0 // a cycle that no line is marked to close
		case done:
			return boxes[i].layer
		}
		state[i] = seen
		d := 0
		for _, u := range ups[i] {
			d = max(d, depth(u)+1)
		}
		state[i], boxes[i].layer = done, d
		return d
	}
	for _, i := range g.boxes {
		depth(i)
	}
	// A box with fewer lines from above than to below sinks towards its readers, which
	// shortens lines.
	for range g.boxes {
		moved := false
		for at := len(g.boxes) - 1; at >= 0; at-- {
			i := g.boxes[at]
			if len(downs[i]) == 0 || len(ups[i]) > len(downs[i]) {
				continue
			}
			lowest := boxes[downs[i][0]].layer - 1
			for _, d := range downs[i] {
				lowest = min(lowest, boxes[d].layer-1)
			}
			if lowest > boxes[i].layer {
				boxes[i].layer, moved = lowest, true
			}
		}
		if !moved {
			return
		}
	}
}

// build makes the places, and links those of neighbouring layers.
func (g *grid) build() {
	boxes := g.picture.Boxes
	at := make(map[int]*place)
	for _, i := range g.boxes {
		b := boxes[i]
		at[i] = g.add(b.layer, &place{box: i, group: b.Group, w: b.W})
	}
	link := func(a, b *place) { a.down, b.up = append(a.down, b), append(b.up, a) }
	for i, l := range g.picture.Lines {
		if at[l.From] == nil || at[l.To] == nil || l.Back || boxes[l.To].layer <= boxes[l.From].layer {
			continue
		}
		last := at[l.From]
		for k := boxes[l.From].layer + 1; k < boxes[l.To].layer; k++ {
			group := -1
			if boxes[l.From].Group == boxes[l.To].Group {
				group = boxes[l.From].Group
			}
			bend := g.add(k, &place{box: -1, group: group})
			g.bends[i] = append(g.bends[i], bend)
			link(last, bend)
			last = bend
		}
		link(last, at[l.To])
	}
	g.number()
}

func (g *grid) add(layer int, q *place) *place {
	for len(g.layers) <= layer {
		g.layers = append(g.layers, nil)
	}
	g.layers[layer] = append(g.layers[layer], q)
	return q
}

// number sets the position of each place in its layer.
func (g *grid) number() {
	for _, l := range g.layers {
		for i, q := range l {
			q.pos = i
		}
	}
}
