package picture

import "math"

// place positions boxes and bends, from left on to the right, and returns the right end of the
// column.
func (g *grid) place(left, top float64) (right float64) {
	for _, l := range g.layers { // initially side by side
		x := 0.0
		for i, q := range l {
			if i > 0 {
				x += gap(l[i-1], q)
			}
			q.x = x + q.w/2
			x += q.w
		}
	}
	for sweep := range 60 {
		for k := range g.layers {
			if sweep%2 == 1 {
				k = len(g.layers) - 1 - k
			}
			straighten(g.layers[k], sweep%2 == 0)
		}
	}
	first, last := math.Inf(1), math.Inf(-1)
	for _, l := range g.layers {
		for _, q := range l {
			q.x = math.Round(q.x)
			first, last = min(first, q.x-q.w/2), max(last, q.x+q.w/2)
		}
	}
	if len(g.boxes) == 0 {
		return left
	}
	for k, l := range g.layers {
		y := top + float64(k)*(boxHeight+layerGap)
		for _, q := range l {
			q.x += left - first
			if q.box >= 0 {
				b := &g.picture.Boxes[q.box]
				b.X, b.Y = q.x, y+boxHeight/2
			}
		}
		g.shade(l, y)
	}
	for i, bends := range g.bends {
		line := &g.picture.Lines[i]
		from, to := g.picture.Boxes[line.From], g.picture.Boxes[line.To]
		line.Points = [][2]float64{{from.X, from.Y + boxHeight/2}}
		for j, q := range bends {
			y := top + float64(from.layer+1+j)*(boxHeight+layerGap)
			line.Points = append(line.Points, [2]float64{q.x, y}, [2]float64{q.x, y + boxHeight})
		}
		line.Points = append(line.Points, [2]float64{to.X, to.Y - boxHeight/2})
	}
	return left + last - first
}

// shade adds the shades for the groups of a layer.
func (g *grid) shade(layer []*place, y float64) {
	const pad = 6
	for i := 0; i < len(layer); {
		j := i
		boxes := false
		for j < len(layer) && layer[j].group == layer[i].group {
			boxes = boxes || layer[j].box >= 0
			j++
		}
		if layer[i].group >= 0 && boxes {
			from, to := layer[i].x-layer[i].w/2-pad, layer[j-1].x+layer[j-1].w/2+pad
			g.picture.Shades = append(g.picture.Shades, Shade{layer[i].group, from, y - layerGap/2, to - from, boxHeight + layerGap})
		}
		i = j
	}
}

// gap returns the distance between two adjacent places.
func gap(a, b *place) float64 {
	switch {
	case a.box < 0 && b.box < 0:
		return bendGap
	case a.group != b.group:
		return boxGap + 6
	default:
		return boxGap
	}
}

// A run is a sequence of adjacent places that touch each other, so that they move together.
type run struct{ at, weight, n float64 }

// straighten moves each place of a layer towards its neighbours above or below, and keeps order and
// gaps. It is an isotonic regression, by pooling adjacent violators, which yields the nearest
// positions that the order permits. Places without neighbours have little weight, and bends have
// much, so that lines that pass layers are straight.
func straighten(layer []*place, above bool) {
	var runs []run
	off, offs := 0.0, make([]float64, len(layer))
	for i, q := range layer {
		if i > 0 {
			off += layer[i-1].w/2 + q.w/2 + gap(layer[i-1], q)
		}
		offs[i] = off
		of, weight := q.down, 1.0
		if above {
			of = q.up
		}
		at := q.x
		if len(of) == 0 {
			weight = 0.1
		} else {
			at = 0
			for _, x := range of {
				at += x.x
				if x.box < 0 && q.box < 0 {
					weight = 8
				}
			}
			at /= float64(len(of))
		}
		runs = append(runs, run{at - off, weight, 1})
		for len(runs) > 1 {
			a, b := runs[len(runs)-2], runs[len(runs)-1]
			if a.at <= b.at {
				break
			}
			runs = append(runs[:len(runs)-2], run{(a.at*a.weight + b.at*b.weight) / (a.weight + b.weight), a.weight + b.weight, a.n + b.n})
		}
	}
	i := 0
	for _, r := range runs {
		for range int(r.n) {
			layer[i].x = r.at + offs[i]
			i++
		}
	}
}
