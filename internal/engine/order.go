package engine

import (
	"slices"

	"github.com/millrace/millrace/internal/engine/callsite"
)

// This file decides where it makes a difference whether a step takes several records at once or one after another, and where the
// order of unordered elements can be observed. A simulation offers those choices only there. It works on complete graphs.

// A feed is one of the nodes that an operator consumes.
type feed struct {
	op     *Op // nil if unknown
	number int // among the feeds of op
}

// feedOf records that the operator being built consumes a node with head h.
func feedOf(h *Head) feed {
	f := feed{op: h.Loc.Making}
	if f.op != nil && h.Op != nil && h.Op != f.op && h.Loc.Simulated() {
		f.number = len(f.op.feeds)
		f.op.feeds = append(f.op.feeds, h.Op)
	}
	return f
}

// gets records that n records without keys come this way.
func (f feed) gets(n int) {
	f.passes()
	f.op.gets(n)
}

// getsKey records that a record with key k comes this way.
func (f feed) getsKey(k any) {
	f.passes()
	f.op.getsKey(k)
}

func (f feed) passes() {
	if f.op.joins {
		f.op.Touch(uint64(f.number), Passes)
	}
}

// plainFeedOf is feedOf for a node without keys.
func plainFeedOf(h *Head) feed {
	f := feedOf(h)
	if f.op != nil {
		f.op.rekeys = true
	}
	return f
}

// A reachableOps is the set of operators that a record may reach within one step.
type reachableOps struct {
	ops []*Op
	has []bool // by operator number
}

// behind returns op and the operators that its output reaches within one step. What comes as a record of a later step ends the
// way.
func (op *Op) behind() reachableOps {
	s := op.Loc
	w := reachableOps{ops: []*Op{op}, has: make([]bool, len(s.Ops))}
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

// seesOrder reports whether op or an operator behind it observes an order. It does not consider whether a caller reads an output
// element by element: a schedule that is repeated from its choices does not know that in advance, and its choices have to mean
// the same.
func (op *Op) seesOrder() bool {
	return slices.ContainsFunc(op.behind().ops, func(x *Op) bool { return x.Ordered || x.Mixed })
}

// Joins returns the operators that the output of op reaches in two ways, with an operator behind them that observes an order. If
// records a and b come together, such an operator receives a and b one way before it receives them the other way. If they come
// one by one, it receives a in both ways first. From now on steps record the ways in which something comes to one of these
// operators.
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

// Behind returns the objects that can show the order in which a step brought something to op in two ways: operators and slices
// behind op, and the timers that they set.
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

// marked reports whether op owns or follows a mark of event time.
func (op *Op) marked() bool { return len(op.owns)+len(op.follows) > 0 }

// Group returns the object that represents the order in which several lanes of an input receive records. It is called for one of
// these lanes.
func (o Object) Group() Object {
	o.Op = -1<<29 - o.Op
	return o
}

// Gathers reports whether several records taken in one step of the loop can be told apart from one record in each of several
// steps. That is so for a slice, which is cut at the end of a step; for an operator that observes an order behind one that need
// not keep the order of what it gets at once; and for a location to which the step sends in two ways.
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
			continue // a call's answer comes by itself
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

// Inbox returns the object that represents the order in which the location accepted what waits.
func (s *Location) Inbox() Object { return Object{int32(s.Number), inboxOp, 0} }

// Capacity returns the object that represents whether more records may wait at the location.
func (s *Location) Capacity() Object { return Object{int32(s.Number), capacityOp, 0} }

// Capacity returns the object that represents whether more elements may wait in an output than do. It matters only if more ever come
// than may wait.
func (op *Op) Capacity() Object {
	return Object{int32(op.Loc.Number), capacityOp, 1 + uint64(op.Index)}
}

// IsCapacity reports whether o was returned by [Op.Capacity].
func (o Object) IsCapacity() bool { return o.Op == capacityOp && o.Key > 0 }

// Full reports whether no more records may wait at the location. It is called with mu held.
func (s *Location) Full() bool { return s.Queued >= s.Graph.Settings.Queue }

// Ticks returns the object that represents how often endless timers of the location have fired since it last took something.
func (s *Location) Ticks() Object { return Object{int32(s.Number), ticksOp, 0} }

// Backpressure returns the object that represents whether the location is stopped because more waits behind it than allowed.
func (s *Location) Backpressure() Object { return Object{int32(s.Number), backpressureOp, 0} }

// PartialStep returns the object that represents the part of a step of the location that was made.
func (s *Location) PartialStep() Object { return Object{int32(s.Number), partialStepOp, 0} }

// FirstAccepted returns the input of the oldest waiting record, or nil if none waits. It is for a driver that takes all records
// with [Location.TakeFirst].
func (s *Location) FirstAccepted() Input {
	if len(s.order) == 0 {
		return nil
	}
	return s.Inputs[s.order[0].Op]
}

// TakeFirst makes the input of the oldest waiting record take it. It is called with mu held.
func (s *Location) TakeFirst() {
	first := &s.order[0]
	s.Inputs[first.Op].Lift(0, false)()
	s.Queued--
	if first.N--; first.N == 0 {
		s.order = s.order[1:]
	}
}

// Withdrawn records, with mu held, that an accepted record of the input no longer waits.
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

// A loosening is a place in a simulated graph where a type gives up an order. If the order can be observed behind it, what comes
// there waits, as records of an input without order do, and any of it can continue next. Otherwise it continues at once.
//
// A caller that has seen that a record was taken must not be able to notice that its consequences are missing. So elements wait
// only where nothing else is made of what they are made of: then it is as if their record had not been taken.
type loosening struct {
	entry Input
	keyed bool // only the order between keys is given up; each key keeps its own
	waits bool
}

// Loosen adds an operator behind a node with head h. It becomes part of the graph when the graph is complete, so that all other
// operators have the same numbers as in a graph that is not simulated. With keyed, only the order between keys is given up.
func (s *Location) Loosen(name string, h *Head, keyed bool) *Op {
	op := &Op{Name: name, Pos: callsite.Caller(), Loc: s, loose: &loosening{keyed: keyed}}
	if h.Op != nil {
		op.Ins = []*Op{h.Op}
	}
	s.loosened = append(s.loosened, op)
	return op
}

// Waits makes what comes to op, an operator returned by [Location.Loosen], wait in an input.
func (op *Op) Waits(in Input) { op.loose.entry = in }

// Loose reports whether what comes to op, an operator returned by [Location.Loosen], waits.
func (op *Op) Loose() bool { return op.loose.waits }

// Loosens reports whether op is a place where a type gives up an order.
func (op *Op) Loosens() bool { return op.loose != nil }

// addLoosened makes the operators of Loosen part of the graph.
func (s *Location) addLoosened() {
	for _, op := range s.loosened {
		op.Index = int32(len(s.Ops))
		s.Ops = append(s.Ops, op)
		s.AddInput(op, op.loose.entry)
	}
}

// SettleLoose decides where elements wait. It is called once the graph is complete.
func (s *Location) SettleLoose() {
	for _, op := range s.loosened {
		op.loose.waits = op.alone() && !op.freed() && op.observed()
	}
}

// ends returns the input that the output of op comes from, or nil if that is decided by what op reads.
func (op *Op) ends() Input {
	if op.loose != nil && !op.loose.waits {
		return nil
	}
	return op.Loc.Input(op.Index)
}

// before returns the operators on the way from inputs to op.
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

// alone reports whether nothing else is made of what is on the way to op. It is false if timers are on the way, because those of
// a location fire in the order of their deadlines.
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

// Rekeys declares that the keys that op gives differ from those that it reads.
func (op *Op) Rekeys() { op.rekeys = true }

// A laned input is one whose records can be taken in several orders.
type laned interface {
	// Laned reports whether they can be taken in any order, and whether those of different keys can.
	Laned() (all, keys bool)
}

// freed reports whether what comes to op comes in any order anyway, because its records are taken in any order and nothing on the
// way observes that.
func (op *Op) freed() bool {
	all, keys := true, op.loose.keyed // whether all records come in any order, and whether those of different keys do
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

// observed reports whether the order in which op gives elements can be observed: by an operator that observes an order or has a
// state, by a slice, through the content of one batch, by a cycle, or at an output of elements. It does not depend on which
// outputs are read; see [Op.seesOrder].
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
