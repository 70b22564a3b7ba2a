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
	// Saw says what observer number id of a location saw next. What different observers
	// see has no order between them.
	Saw(site string, id uint64, what uint64)
	// Note says what was chosen, if somebody wants to read it.
	Note(text func() string)
	// Published keeps a value that left its operator, with its digest, so that it can
	// be checked for changes when the schedule is over.
	Published(op *Op, value any)
}

// Note tells the watcher what was chosen, if there is one.
func (g *Graph) Note(text func() string) {
	if w := g.Settings.Watch; w != nil {
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

// Whys returns the reasons that let the inputs of a slice in.
func (r *Region) Whys() string {
	var all []string
	for _, op := range r.Reasons {
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
	r.AtEnd(func() {
		if len(r.shown) == 0 {
			return
		}
		var all uint64 // a sum, since streams have no order between them
		for stream, what := range r.shown {
			all += ChainDigest(stream, what)
		}
		w.Saw(r.Loc.Name, uint64(r.id), all)
	})
}

// Show notes something that a run of the slice let out, in a stream of its own.
func (r *Region) Show(op *Op, key, what any) {
	w := r.Loc.Graph.Settings.Watch
	if w == nil {
		return
	}
	stream := ChainDigest(uint64(op.Index)+1, digest.Of(key))
	r.shown[stream] = ChainDigest(r.shown[stream], digest.Of(what))
	w.Published(op, what)
}

// ChainDigest appends what to a sequence that has the digest so far.
func ChainDigest(sofar, what uint64) uint64 { return (sofar^what)*0x9e3779b97f4a7c15 + 1 }

// observers are numbered behind the slices.
const FirstObserver = 1 << 20

// Permuted says that a function reads the records of n in an order that should not
// matter to it: a simulation tries them all, since that is only claimed.
func (h *Head) Permuted() { h.Component.Find().Ordered = true }
