package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/digest"
)

// A Watcher receives what a simulated graph shows its observers. Two schedules in which every observer saw the same count as one.
type Watcher interface {
	// Observed reports what observer number id of a location saw next. What different observers see has no order among them.
	Observed(location string, id uint64, what uint64)
	// Note reports what was chosen, if that is wanted.
	Note(text func() string)
	// Published keeps a value that left its operator, with its digest, so that the value can be checked for changes when the
	// schedule is over.
	Published(op *Op, value any)
}

// Note reports to the watcher what was chosen, if there is a watcher.
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

// Whys returns the reasons given by the operators that let inputs into a slice.
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

// observe makes each run of the slice report what it showed. A run that showed nothing counts as none. It is called when
// everything else that a run does is known.
func (r *Region) observe(w Watcher) {
	r.pre = slices.Insert(r.pre, 0, func() { r.shown = make(map[uint64]uint64) })
	r.AtEnd(func() {
		if len(r.shown) == 0 {
			return
		}
		var all uint64 // a sum, since streams have no order among them
		for stream, what := range r.shown {
			all += ChainDigest(stream, what)
		}
		w.Observed(r.Loc.Name, uint64(r.id), all)
	})
}

// Show records something that a run of the slice let out, in a stream of its own. In a shuffled stream the order does not count.
func (r *Region) Show(op *Op, key, what any) {
	w := r.Loc.Graph.Settings.Watch
	if w == nil {
		return
	}
	stream := ChainDigest(uint64(op.Index)+1, digest.Of(key))
	if is := digest.Of(what); op.Shuffled {
		r.shown[stream] += ChainDigest(1, is)
	} else {
		r.shown[stream] = ChainDigest(r.shown[stream], is)
	}
	w.Published(op, what)
}

// ChainDigest appends what to a sequence whose digest so far is sofar.
func ChainDigest(sofar, what uint64) uint64 { return (sofar^what)*0x9e3779b97f4a7c15 + 1 }

// FirstObserver is the number of the first observer; lower numbers belong to slices.
const FirstObserver = 1 << 20

// Permuted declares that a function of the operator being built reads the records of h in an order that should not matter to it.
// Since that is only a claim, a simulation tries all orders.
func Permuted(h *Head) { h.Loc.Making.Ordered = true }

// SeesRepeats declares that it can be observed, behind h, that a record came more than once.
func SeesRepeats(h *Head) {
	g := h.Loc.Graph
	g.RepeatsSeen = append(g.RepeatsSeen, h.Loc.Making)
}

// What follows is what a simulated graph records about its steps: which parts of its state each of them touches. Two steps that
// touch nothing in common can be made in either order without an observable difference, so a simulation explores only one of the
// two orders. What is left out here is left out of every proof; an operator that is not described touches everything that it has.

// Turns schedules the callers of the ports of a simulated graph, which act one after another.
type Turns interface {
	// Turn returns when it is the turn of the caller and what it waits for has arrived. It returns an error if that will never
	// arrive.
	Turn(t Turn) error
	// Touch records that the step being made, or the caller whose turn it is, touches o.
	Touch(o Object, a Access)
	// Gives records that the step gives something to an output, or to a key of it.
	Gives(o Object)
	// Kept is called when a caller's record was accepted. It returns [ErrUnknown] if the caller is to be left in doubt about
	// that.
	Kept() error
	// Used records what the caller whose turn it is has done at a port.
	Used(u Use)
}

// A Use is what a caller has done at a port of a simulated graph.
type Use struct {
	Op    *Op
	Do    string // such as "send"
	Key   any    // nil if the port has no keys
	Value any    // what was sent, or what was found
	OK    bool   // whether something was found
	Err   error
}

// Errors of a caller that does not learn whether its record was accepted. To the caller they are the same.
var (
	ErrUnknown = errors.New("dataflow: nobody knows whether what was sent is kept, as the simulation chose")
	ErrUnkept  = fmt.Errorf("%w", ErrUnknown) // it was not kept
)

// A Turn is what a caller of a port is about to do.
type Turn struct {
	Action string // such as "send to"
	Op     *Op
	Ready  func() bool // whether it can be done now; nil if it always can

	Waits Object // what the caller waits for, if Wants is not 0
	Wants Access // what it does with that; 0 if no other caller can take it away
}

// An Object is a part of the state of a graph.
type Object struct {
	Location, Op int32
	Key          uint64 // digest of a key, or another number that distinguishes parts of an operator; 0 for the whole
}

// Objects that belong to no operator.
var (
	World      = Object{-1, -2, 0} // what functions of calls read and write outside the graph
	Everything = Object{-1, -3, 0} // the whole state
)

// closing is the key of the part of an input that represents whether it is closed.
const closing = ^uint64(0)

// An Access says what is done with an object: one of the following, or several.
type Access uint8

// Adds commute with each other. So do sending a record to a queue and taking one from it, since they are different records.
const (
	Reads Access = 1 << iota
	Adds
	Sends
	Takes
	Writes
	Passes // a record comes to an operator; it commutes with everything
)

// Conflicts reports whether the order of a and b makes a difference.
func (a Access) Conflicts(b Access) bool { return conflicting[a&31]&b != 0 }

var conflicting = func() (all [32]Access) {
	with := map[Access]Access{
		Reads:  Adds | Sends | Writes,
		Adds:   Reads | Sends | Takes | Writes,
		Sends:  Reads | Adds | Sends | Writes,
		Takes:  Adds | Takes | Writes,
		Writes: Reads | Adds | Sends | Takes | Writes,
	}
	for a := range all {
		for one, others := range with {
			if Access(a)&one != 0 {
				all[a] |= others
			}
		}
	}
	return all
}()

// Simulated reports whether the graph is a simulated one.
func (s *Location) Simulated() bool { return s.Graph.Settings.Turns != nil }

// Turn waits, in a simulated graph, for the turn of a caller of a port. In other graphs it returns at once.
func (s *Location) Turn(t Turn) error {
	if turns := s.Graph.Settings.Turns; turns != nil {
		return turns.Turn(t)
	}
	return nil
}

// Used records, in a simulated graph, what a caller has done at a port.
func (s *Location) Used(u Use) {
	if turns := s.Graph.Settings.Turns; turns != nil {
		turns.Used(u)
	}
}

// Object returns a part of op: what it holds for a key, or all of it if key is 0.
func (op *Op) Object(key uint64) Object { return Object{int32(op.Loc.Number), op.Index, key} }

// Lane returns the object of a lane of an input, separate from what op holds for the same key.
func (op *Op) Lane(id uint64) Object { return op.Object(id | 1<<63) }

// Touch records, in a simulated graph, an access to the part of op with a key.
func (op *Op) Touch(key uint64, a Access) {
	if turns := op.Loc.Graph.Settings.Turns; turns != nil {
		turns.Touch(op.Object(key), a)
	}
}

// TouchKey records an access to what op holds for a key. The graph must be simulated.
func (op *Op) TouchKey(k any, a Access) { op.Loc.Graph.Settings.Turns.Touch(op.Part(k), a) }

// KeyDigest returns the number that represents a key in an [Object]. It is never 0.
func KeyDigest(k any) uint64 { return max(digest.Of(k)&^(1<<63), 1) }

// Sends records that a caller sends to the input, or learns that it is closed.
func (d *InputBase) Sends() { d.Op.Touch(closing, Reads) }

// sent records, in a simulated graph, that n records were appended to what in has accepted.
func (d *InputBase) sent(in Input, n int) {
	turns := d.Loc.Graph.Settings.Turns
	if turns == nil {
		return
	}
	for i := in.Waiting() - n; i < in.Waiting(); i++ {
		turns.Touch(d.Op.Lane(in.LaneOf(i)), Sends)
	}
}

// Object returns the object that represents everything that the slice has let in and remembers.
func (r *Region) Object() Object { return Object{int32(r.Loc.Number), int32(-1 - r.id), 0} }

// touch records that something was let into the slice, or that a snapshot of it has changed. The order of what is let in matters
// only if an operator behind the slice observes it.
func (r *Region) touch() {
	turns := r.Loc.Graph.Settings.Turns
	switch {
	case turns == nil || r.Name == "":
	case r.ordered:
		turns.Touch(r.Object(), Writes)
	default:
		turns.Touch(r.Object(), Adds)
	}
}

// settleOrder finds the slices behind which an operator observes an order. It is called once all locations are compiled.
func (g *Graph) settleOrder() {
	for _, s := range g.Locations {
		for _, op := range s.Ops {
			for _, in := range op.Ins {
				in.outs = append(in.outs, op)
			}
		}
	}
	for _, s := range g.Locations {
		for _, r := range s.Regions {
			seen := make(map[*Op]bool)
			var behind []*Op
			for _, op := range s.Ops {
				if op.region == r {
					seen[op], behind = true, append(behind, op)
				}
			}
			for i := 0; i < len(behind) && !r.ordered; i++ {
				r.ordered = behind[i].Ordered || behind[i].Mixed
				for _, next := range behind[i].outs {
					if !seen[next] {
						seen[next], behind = true, append(behind, next)
					}
				}
			}
		}
	}
}

// SeesOrder declares that op observes the order in which records come or, if it has keys, the order within each key.
func (op *Op) SeesOrder() { op.Ordered = true }

// MixesKeys declares that op, although it has keys, observes the order across them.
func (op *Op) MixesKeys() { op.Mixed = true }

// inSlice returns the slice to which op belongs, or nil.
func (op *Op) inSlice() *Region {
	if op.region != nil && op.region.Name != "" {
		return op.region
	}
	return nil
}

// given reports whether op is a port to which steps give something.
func (op *Op) given() bool {
	s := op.Loc
	if int(op.Index) >= len(s.outputs) {
		return false
	}
	_, ok := s.outputs[op.Index].(Port)
	return ok
}

// gets records that n records come to op, which has no keys.
func (op *Op) gets(n int) {
	turns := op.Loc.Graph.Settings.Turns
	op.times(turns)
	switch r := op.inSlice(); {
	case r != nil:
		r.touch()
	case op.given():
		for range n {
			turns.Gives(op.Object(0))
		}
	case op.Ordered || len(op.States) > 0:
		turns.Touch(op.Object(0), Writes)
	}
}

// Part returns the object that represents what op holds for a key. It depends on what op can tell apart. A key that op derived from
// one that it was given, such as the key of a call, is held with that one.
func (op *Op) Part(k any) Object {
	if made, ok := k.(interface{ ErrorKey() any }); ok {
		k = made.ErrorKey()
	}
	switch r := op.inSlice(); {
	case r != nil:
		return r.Object()
	case op.Mixed:
		return op.Object(0)
	}
	return op.Object(KeyDigest(k))
}

// getsKey records that a record of a key comes to op.
func (op *Op) getsKey(k any) {
	turns := op.Loc.Graph.Settings.Turns
	op.times(turns)
	switch r := op.inSlice(); {
	case r != nil:
		r.touch()
	case op.given():
		turns.Gives(op.Object(KeyDigest(k)))
	case op.Mixed || op.Ordered || op.clocked || len(op.States) > 0:
		turns.Touch(op.Part(k), Writes)
	}
}

// watchElements makes c record what comes to its operator.
func watchElements[T any](c *Consumer[T]) {
	by := c.by
	if by.op == nil {
		return
	}
	push, one := c.Push, c.One
	c.Push = func(b []T) { by.gets(len(b)); push(b) }
	c.One = func(x T) { by.gets(1); one(x) }
}

// watchEntries makes c record what comes to its operator.
func watchEntries[K comparable, V any](c *KeyedConsumer[K, V]) {
	by := c.by
	if by.op == nil {
		return
	}
	push, one := c.push, c.One
	c.push = func(b *Batch[K, V]) {
		for _, k := range b.K {
			by.getsKey(k)
		}
		push(b)
	}
	c.One = func(k K, v V, h uint64) { by.getsKey(k); one(k, v, h) }
}

// A LaneHead is the first record of a lane of an input. Records of one lane have an order; records of different lanes have none.
type LaneHead struct {
	Lane int    // its number among the lanes of this input, in order of their first records
	ID   uint64 // distinguishes it from the others, independently of what came first
	At   int    // index in what was accepted
}
