package operators

import (
	"cmp"
	"slices"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// Chain returns the elements of first, which is complete, and then those of second. Both are in one region, or first is a
// constant.
//
// What second gives before first is over is held back. At the top level it is held until everything that depends on constants has
// begun, since a reader of the result may begin there itself.
func Chain[T any](first, second *engine.Node[T], op *engine.Op) *engine.Node[T] {
	var h engine.Head
	if second.Region == nil {
		h, _ = engine.Beside(op, second, &first.Head)
	} else {
		h = engine.Derived(op, first, second)
	}
	out := engine.NewNode[T](h)
	var ahead, behind []T
	op.Holds(&ahead, &behind)
	flush := func() {
		engine.PushBlocks(out, behind)
		clear(behind)
		behind = behind[:0]
	}
	keep := func(batch []T) { behind = append(behind, batch...) }
	if h.Region != nil {
		second.To(keep)
		first.To(func(batch []T) { out.Push(batch) })
		h.Region.AtStep(flush)
		return out
	}
	over := engine.AfterStart(h.Loc, func() {
		engine.PushBlocks(out, ahead)
		flush()
		ahead, behind = nil, nil
	})
	second.To(func(batch []T) {
		if *over {
			out.Push(batch)
			return
		}
		keep(batch)
	})
	first.To(func(batch []T) { ahead = append(ahead, batch...) })
	return out
}

// Order returns the order of Sort. It is that of cmp.Compare, but treats no two elements as equal that a program can tell apart:
// -0 comes before 0. Otherwise such elements would stay in the order in which they came.
func Order[T cmp.Ordered]() func(a, b T) int {
	bits := keyed.BitsOf[T]()
	if bits == nil {
		return cmp.Compare[T]
	}
	return func(a, b T) int {
		if c := cmp.Compare(a, b); c != 0 {
			return c
		}
		return cmp.Compare(bits(a), bits(b))
	}
}

// Sort returns the elements of a region in order.
func Sort[T cmp.Ordered](in *engine.Node[T], op *engine.Op) *engine.Node[T] {
	h := engine.InRegion(op, in)
	out := engine.NewNode[T](h)
	var all []T
	op.Holds(&all)
	sort := slices.Sort[[]T]
	if keyed.BitsOf[T]() != nil {
		sort = func(all []T) { slices.SortFunc(all, Order[T]()) }
	}
	in.To(func(batch []T) { all = append(all, batch...) })
	h.Region.AtStep(func() {
		sort(all)
		engine.PushBlocks(out, all)
		clear(all)
		all = all[:0]
	})
	return out
}

// Product returns what pair makes of each element of a and each of b. Both are in one region, or b is a constant.
func Product[T, U, P any](a *engine.Node[T], b *engine.Node[U], op *engine.Op, pair func(T, U) P) *engine.Node[P] {
	h := besideConstant(op, b, a)
	out := engine.NewNode[P](h)
	us := state.NewVar(engine.OfConstants(op, &h), []U(nil))
	b.To(func(batch []U) { *us = append(*us, batch...) })
	size := engine.BlockSize[P]()
	var buf []P
	op.Holds(&buf)
	f := func(batch []T) {
		for _, x := range batch {
			for _, u := range *us {
				if buf = append(buf, pair(x, u)); len(buf) == size {
					out.Push(buf)
					buf = buf[:0]
				}
			}
		}
		if len(buf) > 0 {
			out.Push(buf)
			clear(buf)
			buf = buf[:0]
		}
	}
	if h.Region == nil {
		a.To(f)
		return out
	}
	var kept []T
	op.Holds(&kept)
	a.To(func(batch []T) { kept = append(kept, batch...) })
	h.Region.AtStep(func() {
		f(kept)
		clear(kept)
		kept = kept[:0]
	})
	return out
}
