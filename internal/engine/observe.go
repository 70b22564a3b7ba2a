package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/digest"
)

// A Watcher sees what a simulated graph shows its observers. Two schedules in which
// every observer saw the same are one.
type Watcher interface {
	// Saw says what observer number id of a site saw next. What different observers
	// see has no order between them.
	Saw(site string, id uint64, what uint64)
	// Note says what was chosen, if somebody wants to read it.
	Note(text func() string)
	// Published keeps a value that left its operator, with its digest, so that it can
	// be checked for changes when the schedule is over.
	Published(op *Op, value any)
}

func (g *Graph) note(text func() string) {
	if w := g.set.Watch; w != nil {
		w.Note(text)
	}
}

// String returns the operator as traces name it.
func (op *Op) String() string {
	if op.Why == "" {
		return fmt.Sprintf("%s (%s)", op.Name, op.Pos)
	}
	return fmt.Sprintf("%s (%s: %q)", op.Name, op.Pos, op.Why)
}

// whys returns the reasons that let the inputs of a slice in.
func (r *Region) whys() string {
	var all []string
	for _, op := range r.reasons {
		if why := fmt.Sprintf("%q", op.Why); len(all) == 0 || all[len(all)-1] != why {
			all = append(all, why)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return ": " + strings.Join(all, ", ")
}

// observe has each run of the slice note what it showed. A run that showed nothing is as
// good as none. It is called when everything else that a run does is known.
func (r *Region) observe(w Watcher) {
	r.pre = slices.Insert(r.pre, 0, func() { r.shown = make(map[uint64]uint64) })
	r.atEnd(func() {
		if len(r.shown) == 0 {
			return
		}
		var all uint64 // a sum, since streams have no order between them
		for stream, what := range r.shown {
			all += chain(stream, what)
		}
		w.Saw(r.site.name, uint64(r.id), all)
	})
}

// show notes something that a run of the slice let out, in a stream of its own.
func (r *Region) show(op *Op, key, what any) {
	w := r.site.g.set.Watch
	if w == nil {
		return
	}
	stream := chain(uint64(op.index)+1, digest.Of(key))
	r.shown[stream] = chain(r.shown[stream], digest.Of(what))
	w.Published(op, what)
}

// chain appends what to a sequence that has the digest so far.
func chain(sofar, what uint64) uint64 { return (sofar^what)*0x9e3779b97f4a7c15 + 1 }

// observers are numbered behind the slices.
const firstObserver = 1 << 20

// Permuted says that a function reads the records of n in an order that should not
// matter to it: a simulation tries them all, since that is only claimed.
func (h *Head) Permuted() { h.part.find().ordered = true }

// Observe makes op an observer of the order in which the elements of n come.
func Observe[T any](n *Node[T], op *Op) *Node[T] {
	n.part.find().ordered = true
	if n.site.g.set.Watch == nil {
		return Pass(n, op)
	}
	out := NewNode[T](derived(op, n))
	n.To(func(batch []T) {
		w := n.site.g.set.Watch
		for _, x := range batch {
			if n.region != nil {
				n.region.show(op, nil, x)
			} else {
				w.Saw(n.site.name, firstObserver+uint64(op.index), digest.Of(x))
			}
		}
		out.push(batch)
	})
	return out
}

// KObserve makes op an observer of the order in which the values of each key come.
func KObserve[K comparable, V any](n *KNode[K, V], op *Op) *KNode[K, V] {
	n.part.find().ordered = true
	if n.site.g.set.Watch == nil {
		return KPass(n, op)
	}
	out := NewKNode[K, V](derived(op, n))
	out.fresh, out.revises, out.live = n.fresh, n.revises, n.live
	n.To(func(b *Batch[K, V]) {
		w := n.site.g.set.Watch
		for i, k := range b.K {
			if n.region != nil {
				n.region.show(op, k, b.V[i])
			} else {
				w.Saw(n.site.name, firstObserver+uint64(op.index)<<32^digest.Of(k), digest.Of(b.V[i]))
			}
		}
		out.push(b)
	})
	return out
}
