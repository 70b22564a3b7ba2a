package engine

import (
	"reflect"
	"slices"
	"unsafe"

	"github.com/millrace/millrace/internal/cow"
	"github.com/millrace/millrace/internal/keyed"
	"github.com/millrace/millrace/internal/seal"
)

// A Head is what all nodes have: where they are.
type Head struct {
	site   *Site
	region *Region   // the slice or start region it is in; nil at the top level
	ready  bool      // complete before any batch of its region is pushed
	deps   []*Region // the slices from which it derives
	loops  []*loop   // the cycles that it follows without a record in between
	part   *part     // what it cannot be told apart from; see drive.go
	op     *Op       // the operator that made it; see graph.go
}

// Site returns where the node lives.
func (h *Head) Site() *Site { return h.site }

// Region returns the region the node is in, or nil at the top level.
func (h *Head) Region() *Region { return h.region }

func (h *Head) head() *Head { return h }

type header interface{ head() *Head }

// Same returns the head of a node made from all of hs. It panics unless they are at
// the same place.
func Same(op string, hs ...header) Head {
	first := *hs[0].head()
	first.site.reads(&first)
	first.deps = slices.Clone(first.deps)
	for _, x := range hs[1:] {
		h := x.head()
		first.site.reads(h)
		switch {
		case h.site != first.site:
			Misuse(op, "the collections live at different locations, %s and %s", first.site.name, h.site.name)
		case h.region != first.region:
			Misuse(op, "the collections are in %s and %s: a slice reads only what was let into it, and lets out only what it emits", first.region, h.region)
		}
		first.ready = first.ready && h.ready
		first.part.join(h.part)
		for _, d := range h.deps {
			if !slices.Contains(first.deps, d) {
				first.deps = append(first.deps, d)
			}
		}
		first.loops = union(first.loops, h.loops)
	}
	return first
}

// A Located is a node of any kind.
type Located interface {
	comparable
	Site() *Site
}

// NodeOf returns the node of a collection. It panics for a zero value, which no
// operator made.
func NodeOf[Mark any, N Located](c seal.Type[Mark, N], op string) N { return made(seal.Value(c), op) }

// Read returns the node of a collection and a new operator that reads it, which calls the
// given functions: it panics if one is nil.
func Read[Mark any, N Located](c seal.Type[Mark, N], name string, functions ...any) (N, *Op) {
	n := made(seal.Value(c), name)
	Given(name, functions...)
	return n, NewOp(n.Site(), name, "")
}

// ReadReasoned is [Read] for an operator that takes a reason.
func ReadReasoned[Mark any, N Located, Why ~string](c seal.Type[Mark, N], name string, why Why, functions ...any) (N, *Op) {
	n := made(seal.Value(c), name)
	Given(name, functions...)
	return n, Reasoned(n.Site(), name, string(why))
}

// ReadProved is [Read] for an operator that takes a proof.
func ReadProved[Mark any, N Located, Why ~string](c seal.Type[Mark, N], name string, why Why, functions ...any) (N, *Op) {
	n := made(seal.Value(c), name)
	Given(name, functions...)
	return n, Proved(n.Site(), name, string(why))
}

func made[N Located](n N, op string) N {
	var none N
	if n == none {
		ZeroCollection(op)
	}
	return n
}

// ZeroCollection panics because an operator was given a zero value.
func ZeroCollection(op string) {
	Misuse(op, "the collection is a zero value: collections come from operators and inputs")
}

// A Node is the output of an operator over a plain stream.
//
// A batch that is pushed is borrowed: a consumer may read it during the call, and
// neither writes nor keeps it.
type Node[T any] struct {
	Head
	outs []*consumer[T]
	push func([]T) // set when the graph is compiled, like one
	one  func(T)   // push of a single element
	same *Node[T]  // whose consumers those of this are, if not nil
	sent *counter  // of what was pushed, if the graph counts; see status_count.go
}

// A consumer is what is called with the elements of a node.
//
// A record that is sent alone goes down the graph by itself, without a batch around
// it in each operator: that is half of what an operator costs it.
type consumer[T any] struct {
	push func([]T)
	one  func(T) // push of a single element; nil means that it is pushed as a batch
	step step[T] // what it does with an element, if the operator before it can do that; see fuse.go
}

// NewNode returns a node at h without a producer.
func NewNode[T any](h Head) *Node[T] {
	n := &Node[T]{Head: h}
	h.site.makes(&n.Head)
	h.site.compiled(n.compile)
	return n
}

func (n *Node[T]) compile() {
	outs := n.outs
	for _, out := range outs {
		if out.one == nil {
			out.one = alone(out.push)
		}
	}
	switch len(outs) {
	case 0:
		n.push, n.one = func([]T) {}, func(T) {}
	case 1:
		n.push, n.one = outs[0].push, outs[0].one
	default:
		n.push = func(b []T) {
			for _, out := range outs {
				out.push(b)
			}
		}
		n.one = func(x T) {
			for _, out := range outs {
				out.one(x)
			}
		}
	}
	n.count()
}

// alone returns a function that pushes an element as a batch of one. A node is never
// pushed to while it pushes, so there is one room for it.
func alone[T any](push func([]T)) func(T) {
	room := new([1]T)
	return func(x T) {
		room[0] = x
		push(room[:])
		var zero T
		room[0] = zero
	}
}

// To adds a consumer.
func (n *Node[T]) To(f func([]T)) { n.to(&consumer[T]{push: f}) }

func (n *Node[T]) to(c *consumer[T]) {
	n.site.reads(&n.Head)
	n = n.origin()
	n.outs = append(n.outs, c)
	n.site.enters(n.counter())
}

// origin returns the node whose consumers those of n are.
func (n *Node[T]) origin() *Node[T] {
	if n.same != nil {
		return n.same
	}
	return n
}

// A Batch is a piece of a keyed stream, or of the changes of a keyed singleton, in
// columns. It is borrowed like any batch.
type Batch[K comparable, V any] struct {
	K    []K
	V    []V
	H    []uint64 // hashes of K, or nil until somebody needed them
	Gone []bool   // which keys were removed; nil if none was
}

// hashes returns the hash column, computed into *room if nobody did so before.
func (b *Batch[K, V]) hashes(h *keyed.Hasher[K], room *[]uint64) []uint64 {
	if b.H == nil {
		*room = resize(*room, len(b.K))
		h.HashAll(b.K, *room)
		b.H = *room
	}
	return b.H
}

// A KNode is the output of an operator over keyed data: a keyed stream, or the
// changes of a keyed singleton.
type KNode[K comparable, V any] struct {
	Head
	outs []*keyedConsumer[K, V]
	push func(*Batch[K, V]) // set when the graph is compiled, like one
	one  func(K, V, uint64) // push of a single entry; see keyedConsumer
	same *KNode[K, V]       // whose consumers those of this are, if not nil
	sent *counter           // of what was pushed, if the graph counts
	live Live[K, V]         // the whole content, if somebody keeps it
	// revises says that a batch may change or remove keys that were pushed before.
	revises bool
	// fresh says that every key comes from a batch of entries of this slice, so
	// that it cannot have been emitted by an earlier run.
	fresh   bool
	trigger *trigger // of a snapshot
}

// NewKNode returns a node at h without a producer.
func NewKNode[K comparable, V any](h Head) *KNode[K, V] {
	n := &KNode[K, V]{Head: h}
	h.site.makes(&n.Head)
	h.site.compiled(n.compile)
	return n
}

// To adds a consumer and returns it, for an operator that also has a form for single
// entries.
func (n *KNode[K, V]) To(f func(*Batch[K, V])) *keyedConsumer[K, V] {
	n.site.reads(&n.Head)
	n = n.origin()
	c := n.add(f)
	n.site.enters(n.counter())
	return c
}

// add adds a consumer that is no reader of the node.
func (n *KNode[K, V]) add(f func(*Batch[K, V])) *keyedConsumer[K, V] {
	c := &keyedConsumer[K, V]{push: f}
	n.outs = append(n.outs, c)
	return c
}

// origin returns the node whose consumers those of n are.
func (n *KNode[K, V]) origin() *KNode[K, V] {
	if n.same != nil {
		return n.same
	}
	return n
}

// Fresh reports whether every key comes from a batch of entries of this slice.
func (n *KNode[K, V]) Fresh() bool { return n.fresh }

// A Cell is the output of an operator that yields one value, or at most one.
type Cell[T any] struct {
	Head
	outs  []func(T)
	sent  *counter // of how often it was set, if the graph counts
	gones []func()
	value T
	set   bool // has a value (in this run, inside a region)

	trigger *trigger // of a snapshot
}

// NewCell returns a cell at h without a value.
func NewCell[T any](h Head) *Cell[T] {
	c := newCell[T](h)
	if c.op != nil && (h.region == nil || h.region == &h.site.starts) {
		lasting(c.op).add(nil, func(op *Op) state {
			checkType[T](op)
			return cellState[T]{c}
		})
	}
	return c
}

// newCell is NewCell for a cell that whoever made it saves.
func newCell[T any](h Head) *Cell[T] {
	c := &Cell[T]{Head: h}
	h.site.makes(&c.Head)
	if h.region != nil && h.region != &h.site.starts {
		h.region.atEnd(func() { var zero T; c.value, c.set = zero, false })
	}
	return c
}

// To adds a consumer, called whenever the value was set.
func (c *Cell[T]) To(f func(T)) {
	c.site.reads(&c.Head)
	c.site.enters(c.counter())
	c.outs = append(c.outs, f)
}

// Set gives the cell a value and tells its consumers.
func (c *Cell[T]) Set(v T) {
	c.value, c.set = v, true
	for _, out := range c.outs {
		out(v)
	}
}

// ToUnset adds a consumer, called whenever the value went away.
func (c *Cell[T]) ToUnset(f func()) { c.gones = append(c.gones, f) }

// Unset takes the value away and tells the cell's consumers, if there was one. The
// end of a run of a slice is no change and tells nobody.
func (c *Cell[T]) Unset() {
	if !c.set {
		return
	}
	var zero T
	c.value, c.set = zero, false
	for _, gone := range c.gones {
		gone()
	}
}

// changed calls f whenever the cell has another value or none.
func (c *Cell[T]) changed(f func()) {
	c.To(func(T) { f() })
	c.ToUnset(f)
}

// block is how many elements of T are pushed at once: 8 KiB worth of them.
func block[T any]() int {
	var x T
	return min(max(8192/max(int(unsafe.Sizeof(x)), 1), 16), 1024)
}

// resize returns a slice of length n, reusing buf if it is large enough.
func resize[T any](buf []T, n int) []T {
	if cap(buf) < n {
		return make([]T, n, max(n, 2*cap(buf)))
	}
	return buf[:n]
}

// isView reports whether T is a view of package dataflow.
func isView[T any]() bool {
	held := seal.Holds[T]()
	return held != nil && reflect.PointerTo(held).Implements(reflect.TypeFor[cow.Parts]())
}

// partsOf returns the content of a view of package dataflow.
func partsOf[T any](view *T) cow.Parts { return seal.Untyped(view).(cow.Parts) }
