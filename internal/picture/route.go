package picture

// A gutter is left of a column, or right of the last one. Each line that goes through it has a
// lane.
type gutter struct {
	x     float64
	lines []int
}

func (g *gutter) width() float64 { return laneGap * float64(len(g.lines)) }

// lane returns the position of lane number n.
func (g *gutter) lane(n int) float64 { return g.x + margin/2 + laneGap*float64(n) }

// gutters returns the gutters, with the lines that go through each: lines to another column, lines
// that lead back, and lines that do not lead down.
func (p *Picture) gutters(columns int) []gutter {
	all := make([]gutter, columns+1)
	for i, l := range p.Lines {
		from, to := p.Boxes[l.From].Column, p.Boxes[l.To].Column
		switch {
		case from < to:
			all[to].lines = append(all[to].lines, i)
		case from > to || l.Back || p.Boxes[l.To].layer <= p.Boxes[l.From].layer:
			all[to+1].lines = append(all[to+1].lines, i)
		}
	}
	return all
}

// route sets the points of the lines that have none: straight lines, and those that go through a
// gutter. The layers of all columns are level, so nothing is in the way between two layers.
func (p *Picture) route(gutters []gutter) {
	lanes := make(map[int]float64)
	for i := range gutters {
		for n, l := range gutters[i].lines {
			lanes[l] = gutters[i].lane(n)
		}
	}
	for i := range p.Lines {
		l := &p.Lines[i]
		from, to := p.Boxes[l.From], p.Boxes[l.To]
		begin, end := [2]float64{from.X, from.Y + boxHeight/2}, [2]float64{to.X, to.Y - boxHeight/2}
		if x, ok := lanes[i]; ok {
			l.Points = [][2]float64{begin, {x, begin[1] + layerGap}, {x, end[1] - layerGap}, end}
		} else if len(l.Points) == 0 {
			l.Points = [][2]float64{begin, end}
		}
	}
}
