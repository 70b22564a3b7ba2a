package engine

// A keyedConsumer is called with the entries of a keyed node.
//
// An entry that is sent alone goes down the graph by itself, as an element of a plain
// stream does: without a batch around it an operator costs a third.
type keyedConsumer[K comparable, V any] struct {
	push func(*Batch[K, V])

	// one is push of a single entry, which is never a removal. If it is nil, the entry is
	// pushed as a batch.
	//
	// h is the hash of the key, or 0 if no operator has needed it so far. A key whose hash
	// is 0 is hashed again by each operator.
	one func(k K, v V, h uint64)
}

func (n *KNode[K, V]) compile() {
	outs := n.outs
	for _, out := range outs {
		if out.one == nil || n.site.g.set.Batches {
			out.one = batchOfOne(out.push)
		}
	}
	switch len(outs) {
	case 0:
		n.push, n.one = func(*Batch[K, V]) {}, func(K, V, uint64) {}
	case 1:
		n.push, n.one = outs[0].push, outs[0].one
	default:
		n.push = func(b *Batch[K, V]) {
			for _, out := range outs {
				out.push(b)
			}
		}
		n.one = func(k K, v V, h uint64) {
			for _, out := range outs {
				out.one(k, v, h)
			}
		}
	}
	n.count()
}

// PushBatches makes an empty graph push single entries as batches too, for tests that
// compare the two forms of an operator.
func (g *Graph) PushBatches() { g.set.Batches = true }

// batchOfOne returns a function that pushes an entry as a batch. A node is not pushed to
// while it pushes, so one batch is enough.
func batchOfOne[K comparable, V any](push func(*Batch[K, V])) func(K, V, uint64) {
	room := new(struct {
		k [1]K
		v [1]V
		h [1]uint64
		b Batch[K, V]
	})
	return func(k K, v V, h uint64) {
		room.k[0], room.v[0], room.h[0] = k, v, h
		room.b = Batch[K, V]{K: room.k[:], V: room.v[:]}
		if h != 0 {
			room.b.H = room.h[:]
		}
		push(&room.b)
		var k0 K
		var v0 V
		room.k[0], room.v[0] = k0, v0
	}
}

// A current is the single entry on which an operator works, for errors.
type current[K comparable] struct {
	op  *Op
	key K
}

// enter says that op is about to call user code on the entry of k.
func (c *current[K]) enter(k K) { c.op.site.at, c.key = c.op.index, k }

// emissions are what a function emitted for one entry: mostly nothing or one value.
type emissions[K comparable, U any] struct {
	any   bool
	first U
	more  []U
	c     columns[K, U]
	b     Batch[K, U]
}

func (e *emissions[K, U]) add(u U) {
	if e.any {
		e.more = append(e.more, u)
		return
	}
	e.any, e.first = true, u
}

// pushTo pushes what was emitted under k, and forgets it.
func (e *emissions[K, U]) pushTo(out *KNode[K, U], k K, h uint64) {
	u := e.first
	var zero U
	e.any, e.first = false, zero
	if len(e.more) == 0 {
		out.one(k, u, h)
		return
	}
	e.c.k, e.c.v = append(e.c.k, k), append(e.c.v, u)
	for _, u := range e.more {
		e.c.k, e.c.v = append(e.c.k, k), append(e.c.v, u)
	}
	if h != 0 {
		for range e.c.k {
			e.c.h = append(e.c.h, h)
		}
	}
	clear(e.more)
	e.more = e.more[:0]
	e.c.pushBlocks(out, &e.b)
	clear(e.c.k)
	clear(e.c.v)
	e.c = columns[K, U]{e.c.k[:0], e.c.v[:0], e.c.h[:0]}
}
