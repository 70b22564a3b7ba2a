package engine

import (
	"cmp"
	"slices"
)

// Chain returns the elements of first, which is complete, and then those of second:
// both in one region, or first a constant.
//
// What second gives before first is over is held back. At the top level that is until
// everything that hangs on constants has begun, since whoever reads the result may
// begin there itself.
func Chain[T any](first, second *Node[T], op *Op) *Node[T] {
	var h Head
	if second.region == nil {
		h, _ = beside(op, second, &first.Head)
	} else {
		h = derived(op, first, second)
	}
	out := NewNode[T](h)
	var ahead, behind []T
	op.holds(&ahead, &behind)
	flush := func() {
		pushBlocks(out, behind)
		clear(behind)
		behind = behind[:0]
	}
	keep := func(batch []T) { behind = append(behind, batch...) }
	if h.region != nil {
		second.To(keep)
		first.To(func(batch []T) { out.push(batch) })
		h.region.atStep(flush)
		return out
	}
	over := afterStart(h.site, func() {
		pushBlocks(out, ahead)
		flush()
		ahead, behind = nil, nil
	})
	second.To(func(batch []T) {
		if *over {
			out.push(batch)
			return
		}
		keep(batch)
	})
	first.To(func(batch []T) { ahead = append(ahead, batch...) })
	return out
}

// Sort returns the elements of a region in order.
func Sort[T cmp.Ordered](in *Node[T], op *Op) *Node[T] {
	h := inRegion(op, in)
	out := NewNode[T](h)
	var all []T
	op.holds(&all)
	in.To(func(batch []T) { all = append(all, batch...) })
	h.region.atStep(func() {
		slices.Sort(all)
		pushBlocks(out, all)
		clear(all)
		all = all[:0]
	})
	return out
}
