package engine

import (
	"errors"
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

// Show notes something that a run of the slice let out, in a stream of its own. What has no order
// in it counts in none.
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

// ChainDigest appends what to a sequence that has the digest so far.
func ChainDigest(sofar, what uint64) uint64 { return (sofar^what)*0x9e3779b97f4a7c15 + 1 }

// observers are numbered behind the slices.
const FirstObserver = 1 << 20

// Permuted says that a function of the operator being built reads the records of h in an
// order that should not matter to it: a simulation tries them all, since that is only claimed.
func (h *Head) Permuted() { h.Loc.Making.Ordered = true }

// SeesRepeats says that somebody can tell, behind h, that a record came more than once.
func (h *Head) SeesRepeats() {
	g := h.Loc.Graph
	g.RepeatsSeen = append(g.RepeatsSeen, h.Loc.Making)
}

// What follows is what a simulated graph says of its steps: which parts of its state each of them
// touches. Two steps that touch nothing in common can be made in either order, and nobody can
// tell which was first; so a simulation explores one of the two orders. What is left out here
// is left out of every proof: an operator that is not described touches all that it has.

// Turns are the callers of the ports of a simulated graph, which act one after the other.
type Turns interface {
	// Turn returns when it is the turn of the caller, and what it waits for is there. It
	// returns an error if that will never be there.
	Turn(t Turn) error
	// Touch says that the step being made, or the caller whose turn it is, touches o.
	Touch(o Object, a Access)
	// Gives says that the step gives something to an output, or to a key of it.
	Gives(o Object)
	// Kept is called when a caller's record was accepted. It returns [ErrUnknown] if the caller
	// is not told so.
	Kept() error
	// Used says what the caller whose turn it is has done at a port.
	Used(u Use)
}

// A Use is what a caller has done at a port of a simulated graph.
type Use struct {
	Op    *Op
	Do    string // such as "send"
	Key   any    // nil if the port has no keys
	Value any    // what was sent, or what was there
	OK    bool   // whether there was something
	Err   error
}

// Errors of a caller who is not told whether its record was accepted. To it they are the same.
var (
	ErrUnknown = errors.New("dataflow: nobody knows whether what was sent is kept, as the simulation chose")
	ErrUnkept  = fmt.Errorf("%w", ErrUnknown) // it was not
)

// A Turn is what a caller of a port is about to do.
type Turn struct {
	Say   string // such as "send to"
	Op    *Op
	Ready func() bool // whether it can be done now; nil if it always can

	Waits Object // what the caller waits for, if Wants is not 0
	Wants Access // what it does with that; 0 if nobody else can take it away
}

// An Object is a part of the state of a graph.
type Object struct {
	Location, Op int32
	Key          uint64 // digest of a key, or what else tells parts of an operator apart; 0 for the whole
}

// Objects that belong to no operator.
var (
	World      = Object{-1, -2, 0} // what functions of calls read and write outside of the graph
	Everything = Object{-1, -3, 0} // all there is
)

// closing is the key of the part of an input that says whether it is closed.
const closing = ^uint64(0)

// An Access is what is done with an object: one of the following, or several.
type Access uint8

// Adds commute with each other. A record that is sent to a queue and one that is taken from it do,
// since they are different ones.
const (
	Reads Access = 1 << iota
	Adds
	Sends
	Takes
	Writes
	Passes // a record comes to an operator; it commutes with everything
)

// Conflicts reports whether it makes a difference which of a and b comes first.
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

// Turn waits in a simulated graph until it is the turn of a caller of a port. Elsewhere it
// returns at once.
func (s *Location) Turn(t Turn) error {
	if turns := s.Graph.Settings.Turns; turns != nil {
		return turns.Turn(t)
	}
	return nil
}

// Used says, in a simulated graph, what a caller has done at a port.
func (s *Location) Used(u Use) {
	if turns := s.Graph.Settings.Turns; turns != nil {
		turns.Used(u)
	}
}

// Object returns a part of op: what it has of a key, or all of it.
func (op *Op) Object(key uint64) Object { return Object{int32(op.Loc.Number), op.Index, key} }

// Lane returns a lane of an input, apart from what op has of the same key.
func (op *Op) Lane(id uint64) Object { return op.Object(id | 1<<63) }

// Touch says that the part of op with a key is touched, if the graph is a simulated one.
func (op *Op) Touch(key uint64, a Access) {
	if turns := op.Loc.Graph.Settings.Turns; turns != nil {
		turns.Touch(op.Object(key), a)
	}
}

// TouchKey says that what op has of a key is touched, in a simulated graph.
func (op *Op) TouchKey(k any, a Access) { op.Loc.Graph.Settings.Turns.Touch(op.Part(k), a) }

// KeyDigest returns what stands for a key in an [Object]: it is never 0.
func KeyDigest(k any) uint64 { return max(digest.Of(k)&^(1<<63), 1) }

// Sends says that a caller sends to the input, or is told that it is closed.
func (d *InputBase) Sends() { d.Op.Touch(closing, Reads) }

// sent notes that n records were appended to what was accepted by in, of a simulated graph.
func (d *InputBase) sent(in Input, n int) {
	turns := d.Loc.Graph.Settings.Turns
	if turns == nil {
		return
	}
	for i := in.Waiting() - n; i < in.Waiting(); i++ {
		turns.Touch(d.Op.Lane(in.LaneOf(i)), Sends)
	}
}

// Object returns what stands for all that the slice has let in, and all that it remembers.
func (r *Region) Object() Object { return Object{int32(r.Loc.Number), int32(-1 - r.id), 0} }

// touch says that something was let into the slice, or that a snapshot of it has changed. The
// order of what is let in matters only if somebody behind the slice observes it.
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

// settleOrder finds the slices behind which somebody observes an order. It is called once all
// locations are compiled.
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

// SeesOrder says that op observes the order in which records come: those of each key, if it has
// keys.
func (op *Op) SeesOrder() { op.Ordered = true }

// MixesKeys says that op, although it has keys, observes the order in which they come.
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

// gets says that n records come to op, which has no keys.
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

// Part returns what stands for what op has of a key. It depends on what op can tell apart.
func (op *Op) Part(k any) Object {
	switch r := op.inSlice(); {
	case r != nil:
		return r.Object()
	case op.Mixed:
		return op.Object(0)
	}
	return op.Object(KeyDigest(k))
}

// getsKey says that a record of a key comes to op.
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

// watch has c say what comes to its operator.
func (c *Consumer[T]) watch() {
	by := c.by
	if by.op == nil {
		return
	}
	push, one := c.Push, c.One
	c.Push = func(b []T) { by.gets(len(b)); push(b) }
	c.One = func(x T) { by.gets(1); one(x) }
}

// watch has c say what comes to its operator.
func (c *KeyedConsumer[K, V]) watch() {
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

// A LaneHead is the first record of a lane of an input. Records of one lane have an order,
// records of different lanes have none.
type LaneHead struct {
	Lane int    // its number among the lanes of this input, in order of their first records
	ID   uint64 // what tells it from the others, whatever came first
	At   int    // index in what was accepted
}
