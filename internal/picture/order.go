package picture

import (
	"cmp"
	"slices"
)

// sweeps is the number of times that layers are ordered, alternating between the layers above and
// below.
const sweeps = 24

// order orders the places of each layer so that few lines cross.
func (g *grid) order() {
	for _, l := range g.layers {
		slices.SortStableFunc(l, func(a, b *place) int { return cmp.Compare(a.group, b.group) })
	}
	g.number()
	best, order := g.crossings(), g.clone()
	for sweep := range sweeps {
		down := sweep%2 == 0
		for k := range g.layers {
			if !down {
				k = len(g.layers) - 1 - k
			}
			byMedian(g.layers[k], down)
		}
		for _, l := range g.layers {
			swapNeighbours(l)
		}
		if c := g.crossings(); c < best {
			best, order = c, g.clone()
		}
	}
	g.layers = order
	g.number()
}

// byMedian orders a layer by the medians of the neighbours above or below. A group is at the
// median of the medians of its members.
func byMedian(layer []*place, above bool) {
	of := make(map[*place]float64, len(layer))
	members := make(map[int][]float64)
	for _, q := range layer {
		of[q] = q.median(above)
		if q.group >= 0 {
			members[q.group] = append(members[q.group], of[q])
		}
	}
	at := func(q *place) float64 {
		if q.group < 0 {
			return of[q]
		}
		return middle(members[q.group])
	}
	slices.SortStableFunc(layer, func(a, b *place) int {
		if a.group == b.group && a.group >= 0 {
			return cmp.Compare(of[a], of[b])
		}
		return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(a.group, b.group))
	})
	for i, q := range layer {
		q.pos = i
	}
}

// median returns the median of the positions of a place's neighbours, or its own position if it
// has none.
func (q *place) median(above bool) float64 {
	of := q.down
	if above {
		of = q.up
	}
	if len(of) == 0 {
		return float64(q.pos)
	}
	all := make([]float64, len(of))
	for i, x := range of {
		all[i] = float64(x.pos)
	}
	return middle(all)
}

// middle returns the median of at least one number.
func middle(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	m := len(all) / 2
	if len(all)%2 == 1 {
		return all[m]
	}
	return (all[m-1] + all[m]) / 2
}

// swapNeighbours swaps adjacent places if fewer lines cross then.
func swapNeighbours(layer []*place) {
	for range 3 {
		for i := 1; i < len(layer); i++ {
			a, b := layer[i-1], layer[i]
			if a.group == b.group && crossed(b, a) < crossed(a, b) {
				layer[i-1], layer[i] = b, a
				a.pos, b.pos = i, i-1
			}
		}
	}
}

// crossed returns how many lines of a and b cross if a is left of b.
func crossed(a, b *place) (n int) {
	for _, of := range [...][2][]*place{{a.up, b.up}, {a.down, b.down}} {
		for _, x := range of[0] {
			for _, y := range of[1] {
				if x.pos > y.pos {
					n++
				}
			}
		}
	}
	return n
}

// crossings returns how many lines cross between layers. For each layer it counts the inversions
// of the ends of its lines, in O(e log e) for e lines.
func (g *grid) crossings() (n int) {
	for _, l := range g.layers {
		var ends []int
		for _, q := range l {
			from := len(ends)
			for _, d := range q.down {
				ends = append(ends, d.pos)
			}
			slices.Sort(ends[from:]) // lines of one place do not cross
		}
		n += inversions(ends, make([]int, len(ends)))
	}
	return n
}

// inversions sorts all, and returns the number of pairs that were in the wrong order.
func inversions(all, space []int) (n int) {
	if len(all) < 2 {
		return 0
	}
	m := len(all) / 2
	n = inversions(all[:m], space[:m]) + inversions(all[m:], space[m:])
	merged := space[:0]
	i, j := 0, m
	for i < m || j < len(all) {
		if j == len(all) || i < m && all[i] <= all[j] {
			merged = append(merged, all[i])
			i++
			continue
		}
		merged = append(merged, all[j])
		n += m - i
		j++
	}
	copy(all, merged)
	return n
}

func (g *grid) clone() [][]*place {
	all := make([][]*place, len(g.layers))
	for i, l := range g.layers {
		all[i] = slices.Clone(l)
	}
	return all
}
