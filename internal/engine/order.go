package engine

import (
	"slices"

	"github.com/millrace/millrace/internal/engine/callsite"
)

// This file says where it makes a difference that a step takes several records, and not one after
// the other, and in which order elements come that have none: a simulation offers that only there.
// It is asked of complete graphs.

// A feed is one of the nodes that an operator consumes.
type feed struct {
	op     *Op // nil if it is not known
	number int // among the feeds of op
}

// fed notes that the operator being built consumes a node with head h.
func (h *Head) fed() feed {
	f := feed{op: h.Loc.Making}
	if f.op != nil && h.Op != nil && h.Op != f.op && h.Loc.Simulated() {
		f.number = len(f.op.feeds)
		f.op.feeds = append(f.op.feeds, h.Op)
	}
	return f
}

// gets says that n records come this way, without keys.
func (f feed) gets(n int) {
	f.passes()
	f.op.gets(n)
}

// getsKey says that a record of a key comes this way.
func (f feed) getsKey(k any) {
	f.passes()
	f.op.getsKey(k)
}

func (f feed) passes() {
	if f.op.joins {
		f.op.Touch(uint64(f.number), Passes)
	}
}

// fedPlain is fed for a node that has no keys.
func (h *Head) fedPlain() feed {
	f := h.fed()
	if f.op != nil {
		f.op.rekeys = true
	}
	return f
}

// A way is what a record may come to within one step.
type way struct {
	ops []*Op
	has []bool // by number
}

// behind returns op and what comes from it within one step. What comes as a record of a later
// step ends the way.
func (op *Op) behind() way {
	s := op.Loc
	w := way{ops: []*Op{op}, has: make([]bool, len(s.Ops))}
	w.has[op.Index] = true
	for i := 0; i < len(w.ops); i++ {
		for _, next := range w.ops[i].outs {
			if next.Loc == s && !w.has[next.Index] && (next.loose != nil || s.Input(next.Index) == nil) {
				w.has[next.Index] = true
				w.ops = append(w.ops, next)
			}
		}
	}
	return w
}

// seesOrder reports whether an operator that observes an order is at op or behind it. Whether a
// caller reads an output element by element is not asked: a schedule that is run again from its
// choices does not know it before, and its choices have to mean the same.
func (op *Op) seesOrder() bool {
	return slices.ContainsFunc(op.behind().ops, func(x *Op) bool { return x.Ordered || x.Mixed })
}

// Joins returns the operators to which what comes from op gets in two ways, with somebody behind
// that who observes an order. Of records a and b that come together such an operator gets a and b
// one way before it gets them the other way. If they come one by one, it gets all of a first.
// Steps say from now on in which ways something comes to one of these.
func (op *Op) Joins() (all []*Op) {
	w := op.behind()
	for _, x := range w.ops {
		ways := 0
		for _, from := range x.feeds {
			if w.has[from.Index] {
				ways++
			}
		}
		if ways > 1 && x.seesOrder() {
			x.joins = true
			all = append(all, x)
		}
	}
	return all
}

// Behind returns what can show, of a step that brings something to op in two ways, in which order
// it came: operators and slices behind op, and the timers that they set.
func (op *Op) Behind() map[Object]bool {
	all := make(map[Object]bool)
	for _, x := range op.behind().ops {
		switch r := x.inSlice(); {
		case r != nil:
			all[r.Object()] = true
		case !x.given():
			all[x.Object(0)] = true
		}
		if x.clocked {
			all[op.Loc.Times()] = true
		}
		if x.marked() {
			all[op.Loc.Marks()] = true
		}
	}
	return all
}

// marked reports whether op has to do with a mark of event time.
func (op *Op) marked() bool { return len(op.owns)+len(op.follows) > 0 }

// Group returns what stands for the order in which some lanes of an input get records: it is called
// for one of these.
func (o Object) Group() Object {
	o.Op = -1<<29 - o.Op
	return o
}

// Gathers reports whether somebody can tell several records that a step of the loop takes from
// one record in each of several steps: a slice, which is cut at the end of a step; somebody who
// observes an order, behind an operator that need not keep that of what it gets at once; a
// location to which the step sends two ways.
func (s *Location) Gathers() bool {
	if len(s.Regions) > 0 {
		return true
	}
	to := make(map[*Location]bool)
	for _, out := range s.OutputsInOrder {
		x, ok := out.(Delivery)
		if !ok {
			continue
		}
		at := s
		switch l := x.Exchange(); {
		case l != nil:
			at = l.To
		case !x.Loops():
			continue // a call, whose answer comes by itself
		}
		if to[at] {
			return true
		}
		to[at] = true
	}
	return slices.ContainsFunc(s.Ops, func(op *Op) bool {
		return (len(op.States) > 0 || len(op.feeds) > 1) && op.seesOrder()
	})
}

// Inbox returns what stands for the order in which the location has accepted what waits.
func (s *Location) Inbox() Object { return Object{int32(s.Number), inboxOp, 0} }

// Room returns what stands for whether more records may wait at the location.
func (s *Location) Room() Object { return Object{int32(s.Number), roomOp, 0} }

// Room returns what stands for whether more may wait in an output than do, if ever more comes than
// may wait.
func (op *Op) Room() Object { return Object{int32(op.Loc.Number), roomOp, 1 + uint64(op.Index)} }

// IsRoom reports whether o is what [Op.Room] returns.
func (o Object) IsRoom() bool { return o.Op == roomOp && o.Key > 0 }

// Full reports whether no more records may wait at the location. It is called with mu held.
func (s *Location) Full() bool { return s.Queued >= s.Graph.Settings.Queue }

// Ticks returns what stands for how often endless timers of the location have fired since it took
// something.
func (s *Location) Ticks() Object { return Object{int32(s.Number), ticksOp, 0} }

// Held returns what stands for whether the location is stopped because more waits behind it than
// may.
func (s *Location) Held() Object { return Object{int32(s.Number), heldOp, 0} }

// Half returns what stands for the part of a step of the location that was made.
func (s *Location) Half() Object { return Object{int32(s.Number), halfOp, 0} }

// FirstAccepted returns the input of the record that was accepted first of those that wait, or
// nil if none does. It is for a driver that takes all records with [Location.TakeFirst].
func (s *Location) FirstAccepted() Input {
	if len(s.order) == 0 {
		return nil
	}
	return s.Inputs[s.order[0].Op]
}

// TakeFirst has the input of the record that was accepted first take it. It is called with mu
// held.
func (s *Location) TakeFirst() {
	first := &s.order[0]
	s.Inputs[first.Op].Lift(0, false)()
	s.Queued--
	if first.N--; first.N == 0 {
		s.order = s.order[1:]
	}
}

// Withdrawn notes, with mu held, that a record of the input that was accepted waits no longer.
func (d *InputBase) Withdrawn() {
	s := d.Loc
	s.Queued--
	for i := range s.order {
		if t := &s.order[i]; t.Op == d.Op.Index {
			if t.N--; t.N == 0 {
				s.order = slices.Delete(s.order, i, i+1)
			}
			return
		}
	}
}

// A loosening is where a type gives up an order, in a simulated graph. If somebody can tell the
// order behind it, what comes there waits, as records of an input without order do, and any of
// it can go on next. Elsewhere it goes on at once.
//
// What waits must not be missed by anybody who has seen that it came. So it waits only where
// nothing else is made of what it is made of: then it is as if its record had not been taken.
type loosening struct {
	entry Input
	keyed bool // what is given up is the order between keys, of which each keeps its own
	waits bool
}

// Loosen adds an operator behind what has head h. It becomes part of the graph when that is
// complete, so that the numbers of all others are those of a graph that is not simulated. Keyed
// says that only the order between keys is given up.
func (s *Location) Loosen(name string, h *Head, keyed bool) *Op {
	op := &Op{Name: name, Pos: callsite.Caller(), Loc: s, loose: &loosening{keyed: keyed}}
	if h.Op != nil {
		op.Ins = []*Op{h.Op}
	}
	s.loosened = append(s.loosened, op)
	return op
}

// Waits has what comes to op, which [Location.Loosen] has returned, wait in an input.
func (op *Op) Waits(in Input) { op.loose.entry = in }

// Loose reports whether what comes to op, which [Location.Loosen] has returned, waits.
func (op *Op) Loose() bool { return op.loose.waits }

// Loosens reports whether op is where a type gives up an order.
func (op *Op) Loosens() bool { return op.loose != nil }

// addLoosened makes the operators of Loosen part of the graph.
func (s *Location) addLoosened() {
	for _, op := range s.loosened {
		op.Index = int32(len(s.Ops))
		s.Ops = append(s.Ops, op)
		s.AddInput(op, op.loose.entry)
	}
}

// SettleLoose finds out where elements wait. It is called once the graph is complete.
func (s *Location) SettleLoose() {
	for _, op := range s.loosened {
		op.loose.waits = op.alone() && !op.freed() && op.observed()
	}
}

// ends returns the input from which what op gives comes, or nil if that is what op reads.
func (op *Op) ends() Input {
	if op.loose != nil && !op.loose.waits {
		return nil
	}
	return op.Loc.Input(op.Index)
}

// before returns what is on the way from inputs to op.
func (op *Op) before() []*Op {
	all := slices.Clone(op.Ins)
	for i := 0; i < len(all); i++ {
		if all[i].Loc != op.Loc || all[i].ends() != nil {
			continue
		}
		for _, x := range all[i].Ins {
			if !slices.Contains(all, x) {
				all = append(all, x)
			}
		}
	}
	return all
}

// alone reports whether nothing else is made of what is on the way to op. What timers give is no
// part of that: those of a location fire in the order of their deadlines.
func (op *Op) alone() bool {
	before := op.before()
	for _, x := range before {
		if x.Loc != op.Loc || x.clock {
			return false
		}
		for _, y := range x.outs {
			if y != op && !slices.Contains(before, y) {
				return false
			}
		}
	}
	return true
}

// Rekeys says that what op gives has other keys than what it reads.
func (op *Op) Rekeys() { op.rekeys = true }

// A laned input is one whose records can be taken in several orders.
type laned interface {
	// Laned reports whether they can be taken in any order, and whether those of different keys can.
	Laned() (all, keys bool)
}

// freed reports whether what comes to op comes in any order anyway, since its records are taken in
// any and nothing on the way observes that.
func (op *Op) freed() bool {
	all, keys := true, op.loose.keyed // whether all come in any order, and those of different keys
	for _, x := range op.before() {
		in := x.ends()
		switch l, ok := in.(laned); {
		case ok:
			a, k := l.Laned()
			all, keys = all && a, keys && k
		case in != nil, x.Mixed, x.rekeys && (x.Ordered || len(x.States) > 0):
			return false
		case x.rekeys:
			keys = false
		}
	}
	return all || keys
}

// observed reports whether somebody can tell the order in which op gives elements: who observes
// one or has a state, a slice, by what is in one batch, a cycle, an output of elements. It does not
// depend on which outputs are read; see [Op.seesOrder].
func (op *Op) observed() bool {
	return slices.ContainsFunc(op.behind().ops, func(x *Op) bool {
		if x.Ordered || x.Mixed || x.region != nil || len(x.States) > 0 {
			return true
		}
		out, err := x.Loc.Output(x.Index)
		if err != nil {
			return false
		}
		d, ok := out.(Delivery)
		return ok && d.Loops() || out.Figures().Kind == Elements
	})
}
