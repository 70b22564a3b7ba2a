package engine

import "slices"

// What a graph is drawn from is recorded while a flow is built. The operator that is
// being built is the one that was made last, or was taken up again. A node that is
// made meanwhile is its output; a node that is asked where it lives, or that gets a
// consumer, is its input. So operators need to say nothing, and at run time nothing
// of this is looked at.

// again goes on with the building of an operator after others have been made.
func (op *Op) again() { op.site.making = op }

// reads notes that the operator being built has an input with head h.
func (s *Site) reads(h *Head) {
	to, from := s.making, h.op
	if to == nil {
		return
	}
	to.within(h.region)
	if from != nil && from != to && !slices.Contains(to.ins, from) {
		to.ins = append(to.ins, from)
	}
}

// makes notes that a node with head h is an output of the operator being built.
func (s *Site) makes(h *Head) {
	h.op = s.making
	if h.op != nil {
		h.op.within(h.region)
	}
}

// within notes that op has to do with r. An operator that lets something into a slice
// or out of it belongs to the slice.
func (op *Op) within(r *Region) {
	if r != nil && r.name != "" {
		op.region = r
	}
}

// passes makes op, which changes nothing, the operator from which h comes.
func (op *Op) passes(h *Head) {
	op.again()
	op.site.reads(h)
	h.op = op
}

// Pass returns in as the output of op, for an operator that only changes what a type
// says. It costs nothing: consumers of the result are consumers of in.
func Pass[T any](in *Node[T], op *Op) *Node[T] {
	out := *in
	out.same = in.origin()
	op.passes(&out.Head)
	op.site.enters(out.same.counter())
	return &out
}

// KPass is Pass for a keyed node.
func KPass[K comparable, V any](in *KNode[K, V], op *Op) *KNode[K, V] {
	out := *in
	out.same = in.origin()
	op.passes(&out.Head)
	op.site.enters(out.same.counter())
	return &out
}

// Inputs returns the operators of which op reads an output, in the order in which it
// was given them. One that comes later in the order of construction is feedback.
func (op *Op) Inputs() []*Op { return op.ins }

// Slice returns the slice to which op belongs, or nil.
func (op *Op) Slice() *Region { return op.region }

// Slices returns the slices of the site in order of construction.
func (s *Site) Slices() []*Region {
	return slices.SortedFunc(slices.Values(s.regions), func(a, b *Region) int { return a.id - b.id })
}

// Pos returns file:line of the call that made the slice.
func (r *Region) Pos() string { return r.pos }
