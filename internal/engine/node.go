package engine

import (
	"slices"

	"github.com/millrace/millrace/internal/engine/mark"
)

// An ElementStep is what a consumer does with one element, for the operator before it, which already has the element in a
// register. It makes one loop of two operators, instead of two loops with loads and stores between them.
//
// At most one of Mapped, Kept and Seen is set. If none is, the consumer has to be pushed to.
type ElementStep[T any] struct {
	Op     *Op
	Mapped func(T) T
	Kept   func(T) bool
	Seen   func(T)
	Out    *Node[T] // where its elements go
}

// Next returns the step of the only consumer of n, or a step that does nothing.
func (n *Node[T]) Next() ElementStep[T] {
	if len(n.Outs) != 1 {
		return ElementStep[T]{}
	}
	return n.Outs[0].Step
}

// Sink reports whether its elements have no consumer.
func (s *ElementStep[T]) Sink() bool { return len(s.Out.Outs) == 0 }

// InRegion is Derived for an operator that reads whole collections.
func InRegion(op *Op, ins ...Header) Head {
	h := Derived(op, ins...)
	if h.Region == nil {
		Misuse(op.Name, "the collections are still changing: take a slice of them")
	}
	return h
}

// Beside returns the head of an operator over n that reads c: both are in one region, or c is a constant. ready says that c has
// its value before any batch of n.
func Beside(op *Op, n Header, c *Head) (h Head, ready bool) {
	if x := n.Where(); x.Region == nil && c.Region == &c.Loc.Starts && x.Loc == c.Loc {
		h = *x
		h.Loc.Reads(x)
		h.Loc.Reads(c)
		h.Ready = false
		return h, true
	}
	return Derived(op, n, c), c.Ready
}

// An Index is the whole content of a keyed singleton at the moment. It is borrowed: it is valid only while the holder of the
// token does nothing but read it.
type Index[K comparable, V any] interface {
	Get(k K, h uint64) (V, bool)
	// Find is Get for many keys: it sets at[i] to the place of the value of ks[i], or nil, and returns how many were found. The
	// pointers are valid until the next Find.
	Find(ks []K, hs []uint64, at []*V) (found int)
	Each(f func(*Batch[K, V])) // in order of first appearance
	Watch(f func())            // call f after each batch that changed something
}

// A Head is the part that all nodes share: where they are.
type Head struct {
	Loc    *Location
	Region *Region    // the slice or start region it is in; nil at the top level
	Ready  bool       // complete before any batch of its region is pushed
	Deps   []*Region  // the slices from which it derives
	Loops  []*Loop    // the cycles that it follows without a record in between
	Op     *Op        // the operator that made it; see operator.go
	Mark   *mark.Mark // of a stream of events; nil if its progress is unknown
}

// Location returns the location of the node.
func (h *Head) Location() *Location { return h.Loc }

// Where returns the head itself, for functions that accept nodes of any kind.
func (h *Head) Where() *Head { return h }

// A Header is a node of any kind.
type Header interface{ Where() *Head }

// Same returns the head of a node made from all of hs. It panics unless they are at the same location and in the same region.
func Same(op string, hs ...Header) Head {
	first := *hs[0].Where()
	first.Loc.Reads(&first)
	first.Deps = slices.Clone(first.Deps)
	for _, x := range hs[1:] {
		h := x.Where()
		first.Loc.Reads(h)
		first.Mark = nil // what is made of several streams may be held until the other one has come; see Merged
		switch {
		case h.Loc != first.Loc:
			Misuse(op, "the collections live at different locations, %s and %s", first.Loc.Name, h.Loc.Name)
		case h.Region != first.Region:
			Misuse(op, "the collections are in %s and %s: a slice reads only what was let into it, and lets out only what it emits", first.Region, h.Region)
		}
		first.Ready = first.Ready && h.Ready
		for _, d := range h.Deps {
			if !slices.Contains(first.Deps, d) {
				first.Deps = append(first.Deps, d)
			}
		}
		first.Loops = union(first.Loops, h.Loops)
	}
	return first
}

// Merged is Derived for an operator that passes on at once what comes from each of ins.
func Merged(op *Op, ins ...Header) Head {
	h := Derived(op, ins...)
	marks := make([]*mark.Mark, len(ins))
	for i, in := range ins {
		marks[i] = in.Where().Mark
	}
	h.Mark = mark.Least(marks...)
	return h
}

// A Node is the output of an operator over a plain stream.
//
// A pushed batch is borrowed: a consumer may read it during the call, and neither writes nor keeps it.
type Node[T any] struct {
	Head
	Outs []*Consumer[T]
	Push func([]T) // set when the graph is compiled, like One
	One  func(T)   // push of a single element
	same *Node[T]  // the node whose consumers it shares, if not nil
	sent *counter  // counts what was pushed, if the graph counts; see status.go
}

// A Consumer receives the elements of a node.
//
// A record that is sent alone passes through the graph without a batch around it in each operator; a batch would double the cost
// of an operator.
type Consumer[T any] struct {
	Push func([]T)
	One  func(T) // push of a single element; nil means that it is pushed as a batch
	// MakeOne makes One when the graph is compiled; see KeyedConsumer.
	MakeOne func() func(T)
	Step    ElementStep[T] // what it does with an element, if the operator before it can do that; see operators/fuse.go
	by      feed           // the operator whose consumer it is
}

// NewNode returns a node at h without a producer.
func NewNode[T any](h Head) *Node[T] {
	n := &Node[T]{Head: h}
	h.Loc.makes(&n.Head)
	h.Loc.Compiled(n.compile)
	return n
}

func (n *Node[T]) compile() {
	outs := n.Outs
	for _, out := range outs {
		if out.MakeOne != nil {
			out.One = out.MakeOne()
		}
		if out.One == nil {
			out.One = SingleAsBatch(out.Push)
		}
		if n.Loc.Simulated() {
			watchElements(out)
		}
	}
	switch len(outs) {
	case 0:
		n.Push, n.One = func([]T) {}, func(T) {}
	case 1:
		n.Push, n.One = outs[0].Push, outs[0].One
	default:
		n.Push = func(b []T) {
			for _, out := range outs {
				out.Push(b)
			}
		}
		n.One = func(x T) {
			for _, out := range outs {
				out.One(x)
			}
		}
	}
	checkReaders(n)
	count(n)
}

// To adds a consumer.
func (n *Node[T]) To(f func([]T)) { n.Consume(&Consumer[T]{Push: f}) }

// Consume adds a consumer that can also have a function for single elements.
func (n *Node[T]) Consume(c *Consumer[T]) {
	n.Loc.Reads(&n.Head)
	c.by = plainFeedOf(&n.Head)
	n = n.Origin()
	n.Outs = append(n.Outs, c)
	n.Loc.enters(n.Counter())
}

// Origin returns the node whose consumers n shares, or n.
func (n *Node[T]) Origin() *Node[T] {
	if n.same != nil {
		return n.same
	}
	return n
}

// A KeyedNode is the output of an operator over keyed data: a keyed stream, or the
// changes of a keyed singleton.
type KeyedNode[K comparable, V any] struct {
	Head
	Outs  []*KeyedConsumer[K, V]
	Push  func(*Batch[K, V]) // set when the graph is compiled, like One
	One   func(K, V, uint64) // push of a single entry; see KeyedConsumer
	same  *KeyedNode[K, V]   // the node whose consumers it shares, if not nil
	sent  *counter           // counts what was pushed, if the graph counts
	Index Index[K, V]        // the whole content, if an operator keeps it
	// Revises says that a batch may change or remove keys that were pushed before.
	Revises bool
	// Forgets says that Revises is only about removed keys: a value never changes while its key exists. A batch may contain
	// several lives of a key, in order.
	Forgets bool
	// Fresh says that every key comes from a batch of entries of this slice, so that it cannot have been emitted by an earlier
	// run.
	Fresh bool
	// Lives reports when the lives of such keys are over, if they can be forgotten.
	Lives   *Lives[K]
	Trigger *Trigger // of a snapshot
}

// NewKeyedNode returns a node at h without a producer.
func NewKeyedNode[K comparable, V any](h Head) *KeyedNode[K, V] {
	n := &KeyedNode[K, V]{Head: h}
	h.Loc.makes(&n.Head)
	h.Loc.Compiled(n.compile)
	return n
}

// To adds a consumer and returns it, so that the operator can also set its function for single entries.
func (n *KeyedNode[K, V]) To(f func(*Batch[K, V])) *KeyedConsumer[K, V] {
	n.Loc.Reads(&n.Head)
	by := feedOf(&n.Head)
	n = n.Origin()
	c := Attach(n, f)
	c.by = by
	n.Loc.enters(n.Counter())
	return c
}

// Attach adds a consumer to n without recording it as a reader of the node.
func Attach[K comparable, V any](n *KeyedNode[K, V], f func(*Batch[K, V])) *KeyedConsumer[K, V] {
	c := &KeyedConsumer[K, V]{push: f}
	n.Outs = append(n.Outs, c)
	return c
}

// Origin returns the node whose consumers n shares, or n.
func (n *KeyedNode[K, V]) Origin() *KeyedNode[K, V] {
	if n.same != nil {
		return n.same
	}
	return n
}

// A KeyedConsumer is called with the entries of a keyed node.
//
// An entry that is sent alone passes through the graph without a batch around it, as an element of a plain stream does: an
// operator then costs a third of what it costs with one.
type KeyedConsumer[K comparable, V any] struct {
	push func(*Batch[K, V])

	// One receives a single entry, which is never a removal. If it is nil, the entry is pushed as a batch.
	//
	// h is the hash of the key, or 0 if no operator has needed it so far. A key whose hash is 0 is hashed again by each operator.
	One func(k K, v V, h uint64)

	// MakeOne, if it is not nil, makes One when the graph is compiled. By then the functions of the following nodes are known, so
	// One can have them at hand instead of loading each one from its node, which is half the time of a map in a long chain.
	MakeOne func() func(k K, v V, h uint64)

	// Gone reports whether the consumer has any use for removals; nil means that it has.
	Gone func() bool

	by feed // the operator whose consumer it is
}

// Lives reports forgotten keys to its watchers.
type Lives[K comparable] struct{ watches []func(ks []K, hs []uint64) }

// Watch adds a function to call with forgotten keys and their hashes.
func (l *Lives[K]) Watch(f func(ks []K, hs []uint64)) { l.watches = append(l.watches, f) }

// Watched reports whether there are watchers.
func (l *Lives[K]) Watched() bool { return len(l.watches) > 0 }

// Over reports that ks were forgotten.
func (l *Lives[K]) Over(ks []K, hs []uint64) {
	for _, f := range l.watches {
		f(ks, hs)
	}
}

// WantsGone reports whether a consumer remembers the entries of n, so that it must learn which keys are gone. It is called once
// the graph is complete.
func (n *KeyedNode[K, V]) WantsGone() bool {
	for _, out := range n.Origin().Outs {
		if out.Gone == nil || out.Gone() {
			return true
		}
	}
	return false
}

func (n *KeyedNode[K, V]) compile() {
	outs := n.Outs
	for _, out := range outs {
		if out.MakeOne != nil {
			out.One = out.MakeOne()
		}
		if out.One == nil || n.Loc.Graph.Settings.Batches {
			out.One = batchOfOne(out.push)
		}
		if n.Loc.Simulated() {
			watchEntries(out)
		}
	}
	switch len(outs) {
	case 0:
		n.Push, n.One = func(*Batch[K, V]) {}, func(K, V, uint64) {}
	case 1:
		n.Push, n.One = outs[0].push, outs[0].One
	default:
		n.Push = func(b *Batch[K, V]) {
			for _, out := range outs {
				out.push(b)
			}
		}
		n.One = func(k K, v V, h uint64) {
			for _, out := range outs {
				out.One(k, v, h)
			}
		}
	}
	checkKeyedReaders(n)
	countEntries(n)
}

// PushBatches makes an empty graph push single entries as batches too, for tests that compare the two forms of an operator.
func (g *Graph) PushBatches() { g.Settings.Batches = true }

// Derived is Same for an output that is complete only once its inputs were pushed.
func Derived(op *Op, ins ...Header) Head {
	op.Again()
	h := Same(op.Name, ins...)
	h.Ready = false
	return h
}
