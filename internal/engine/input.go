package engine

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/millrace/millrace/internal/engine/codec"
)

// Why a record is refused. Package dataflow gives them their public names.
var (
	ErrClosed    = errors.New("dataflow: input is closed")
	ErrDuplicate = errors.New("dataflow: key is present already")
	ErrTaken     = errors.New("dataflow: somebody else has taken the entry")
)

// An Input is where records enter a location: an input of the program, the far end of an
// exchange, a cycle, or the answers of asynchronous calls. Records wait in it in the order
// of acceptance, until the planner takes them for a step.
type Input interface {
	Base() *InputBase

	TakeAll()            // what was accepted is taken; mu is held
	Push(n int)          // push the next n of what was taken; see step.go
	Heads() []LaneHead   // the first record of each lane that has one; see port/lanes.go
	Waiting() int        // how many records were accepted and not taken
	LaneOf(i int) uint64 // the lane of the record with index i of what was accepted
	Say(i int) string    // the record with index i of what was accepted, for people

	// Lift returns what takes record i of those that wait, with mu held. If again, it waits on.
	Lift(i int, again bool) (take func())

	CopyTaken(at, n int) any // copies of n records that were taken, from the one with index at
	Load(records any) error  // take what CopyTaken returned, of an input of the same type, or what is [Encoded]
	Entered(n int) error     // the last n records that were loaded have come in; see port/lanes.go

	Check(c codec.Codec) error                                        // why its records cannot be encoded without loss, or nil
	Types() []reflect.Type                                            // of its elements, or of keys and values; nil of records that have no content
	AppendTaken(dst []byte, c codec.Codec, at, n int) ([]byte, error) // append the encoding of what CopyTaken returns

	// Accept lets a record of a history wait. It reports false if the record is refused.
	Accept(r *codec.Record, c codec.Codec) (ok bool, err error)
}

// An InputBase is what all inputs have: acceptance of records in one order, backpressure
// and the end.
type InputBase struct {
	Loc     *Location
	Op      *Op
	touched bool              // accepted something since the last take; guarded by the location's mu
	closed  bool              // guarded by the location's mu
	plan    Plan              // of a sender that runs the location; held by the token
	Shut    atomic.Bool       // no further records are accepted
	Retried bool              // a record may come more than once
	Divided bool              // its records are divided between partitions
	endings []*Ending         // of what follows it; fixed once compiled
	hear    []func(now int64) // listeners behind it; fixed once compiled
}

// Base implements [Input].
func (d *InputBase) Base() *InputBase { return d }

// FromOutside reports whether the input is a port of the program.
func (d *InputBase) FromOutside() bool { return slices.Contains(d.Loc.Bases, d) }

// Refuse says why nothing is accepted, with mu held.
func (d *InputBase) Refuse() error {
	switch {
	case d.Loc.err != nil:
		return d.Loc.err
	case d.closed || d.Loc.Closing:
		return ErrClosed
	}
	return nil
}

// Room waits until a record may be accepted; see [Driver].
func (d *InputBase) Room(ctx context.Context) (Admission, error) {
	s := d.Loc
	switch err := d.Refuse(); {
	case err != nil:
		return Refused, err
	case s.Token.Take():
		return RunNow, nil
	case s.Queued < s.Graph.Settings.Queue:
		return Enqueue, nil
	}
	w := s.Graph.Waiters.Get()
	s.Waiters.Add(w)
	s.senders++
	var failed error // the end of ctx
	for {
		s.Mu.Unlock()
		failed = s.Pause(ctx, w)
		s.Mu.Lock()
		if failed == nil && s.Queued >= s.Graph.Settings.Queue && d.Refuse() == nil {
			continue
		}
		if w.HasToken { // handed the token while leaving
			w.HasToken = false
			s.Graph.Driver.Settle(s, 1)
			s.Mu.Lock() // everything may have changed
			if failed == nil && s.Queued >= s.Graph.Settings.Queue && d.Refuse() == nil {
				s.Waiters.Add(w)
				continue
			}
		}
		break
	}
	s.senders--
	s.Waiters.Remove(w)
	s.Graph.Waiters.Put(w)
	err := d.Refuse()
	if err == nil && failed != nil {
		s.Mu.Unlock()
		err = s.WaitError(failed)
		s.Mu.Lock()
	}
	switch {
	case err != nil:
		return Refused, err
	case s.Token.Take():
		return RunNow, nil
	}
	return Enqueue, nil
}

// Accepted notes n records of in, with mu held. Somebody has to be notified then.
func (d *InputBase) Accepted(in Input, n int) {
	s := d.Loc
	s.Queued += n
	d.sent(in, n)
	if !d.touched {
		d.touched = true
		s.touched = append(s.touched, in)
	}
	if k := len(s.order); k > 0 && s.order[k-1].Op == d.Op.Index {
		s.order[k-1].N += n
		return
	}
	s.order = append(s.order, Take{Op: d.Op.Index, N: n})
}

// Take has the inputs take everything that was accepted, and returns it in order. The
// memory of what was taken last is used again. It is called with mu held by the holder of
// the token.
func (s *Location) Take(last []Take) []Take {
	taken := s.order
	s.order = last[:0]
	for _, in := range s.touched {
		in.Base().touched = false
		in.TakeAll()
	}
	s.touched = s.touched[:0]
	s.Queued = 0
	if s.senders > 0 {
		s.Waiters.WakeAll()
	}
	if len(s.Edges.Clogged) > 0 {
		s.madeRoom()
	}
	return taken
}

// Close ends the input. Closing twice is fine.
func (d *InputBase) Close() {
	s := d.Loc
	if s.Turn(Turn{Say: "close", Op: d.Op}) == nil {
		d.Op.Touch(closing, Writes)
	}
	s.Used(Use{Op: d.Op, Do: "close"})
	s.Mu.Lock()
	if !d.closed {
		d.closed = true
		d.Shut.Store(true)
		if s.senders > 0 {
			s.Waiters.WakeAll()
		}
		s.closeInput(d.ended())
	}
	s.Mu.Unlock()
}

// After gives the token back when the caller has run its own record. The caller passes
// on whether that step came to its end; After returns why the flow failed if it did not,
// or if a step failed that the caller made for others then.
func (s *Location) After(ok bool) error {
	if ok && !s.Left() {
		return nil
	}
	return s.Look(ok)
}

// Left gives the token back unless somebody left something, and reports whether somebody
// did. It is short enough to be inlined.
func (s *Location) Left() bool { return s.Stalled.Load() != 0 || !s.Token.Give() }

// Look is the rest of After, for when a step failed or somebody left something.
func (s *Location) Look(ok bool) error {
	if ok {
		s.Mu.Lock()
		if s.Graph.Driver.Settle(s, 1) {
			return nil
		}
	}
	return s.Graph.Err()
}

// AddInput adds an input with the number of op. What is in it belongs to p.
func (s *Location) AddInput(op *Op, in Input) {
	for len(s.Inputs) <= int(op.Index) {
		s.Inputs = append(s.Inputs, nil)
	}
	s.Inputs[op.Index] = in
	if op.Later {
		op.portLabel("cycle")
	} else {
		op.portLabel("input")
	}
}

// Kick makes sure that what was accepted is run, and unlocks mu. If the caller runs it and
// the step fails, Kick returns why.
func (d *InputBase) Kick() error {
	s := d.Loc
	if s.Token.Notify() {
		if !s.Graph.Driver.Settle(s, 1) {
			return s.Graph.Err()
		}
		return nil
	}
	s.Mu.Unlock()
	if turns := s.Graph.Settings.Turns; turns != nil {
		return turns.Kept()
	}
	return nil
}

// An Ending is the input of one record, which says that nothing more comes to an operator
// from before it: in event time, that time has ended there. So the end has a place in the
// history, behind everything that was accepted before it.
//
// It is accepted when all ports before the operator have been closed. If something else is
// before it as well, such as a timer or a call, it is accepted when nothing more can happen at
// the location. A flow that is stopped accepts none, and one whose history is kept outside has
// none: there a port that is closed says only that this process sends no more.
type Ending struct {
	InputBase
	end    func()
	before []Input // what has to be taken first; fixed once compiled
	ports  int     // of these, ports
	other  bool    // something else than ports is before the operator

	// guarded by the location's mu
	open int  // ports before it that have not been closed
	said bool // it was accepted, or was in a recording

	waits, taken int
}

// AtEnd has end called in the step in which it is known that nothing more comes to op.
func AtEnd(op *Op, end func()) {
	s := op.Loc
	if s.Graph.Kept() {
		return
	}
	e := &Ending{InputBase: InputBase{Loc: s, Op: op}, end: end}
	s.AddInput(op, e)
	s.endings = append(s.endings, e)
}

// settleEndings finds what is before each ending, in order of construction.
func (s *Location) settleEndings() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for _, e := range s.endings {
		seen := make(map[*Op]bool)
		e.look(e.Op, seen)
		if !e.other && e.ports > 0 && e.open == 0 {
			e.say()
		}
	}
}

func (e *Ending) look(op *Op, seen map[*Op]bool) {
	for _, x := range op.Ins {
		if seen[x] {
			continue
		}
		seen[x] = true
		if x.Later || x.clock || x.region != nil || x.Loc != e.Loc {
			e.other = true
			continue
		}
		in := e.Loc.Input(x.Index)
		if in == nil {
			e.look(x, seen)
			continue
		}
		e.before = append(e.before, in)
		if _, ok := in.(*Ending); ok || x.loose != nil {
			e.look(x, seen)
			continue
		}
		d := in.Base()
		d.endings = append(d.endings, e)
		if e.ports++; !d.closed {
			e.open++
		}
	}
}

// ended accepts, with mu held, the endings that waited for this input alone.
func (d *InputBase) ended() (some bool) {
	for _, e := range d.endings {
		if e.open--; e.open == 0 && !e.other && !d.Loc.Stopping {
			e.say()
			some = true
		}
	}
	return some
}

// endTime accepts, with mu held, the next ending of a location at which nothing more can
// happen.
func (s *Location) endTime() bool {
	if s.Stopping || s.Edges.scc != nil {
		return false
	}
	for _, e := range s.endings {
		if !e.said {
			e.say()
			return true
		}
	}
	return false
}

// NoEnd makes a location one that accepts no ending by itself: its history has it or not.
func (s *Location) NoEnd() { s.endings = nil }

func (e *Ending) say() {
	if !e.said {
		e.said = true
		e.waits++
		e.Accepted(e, 1)
	}
}

// TakeAll implements [Input].
func (e *Ending) TakeAll() { e.waits, e.taken = 0, e.taken+e.waits }

// Lift implements [Input].
func (e *Ending) Lift(int, bool) (take func()) { return e.TakeAll }

// Push implements [Input].
func (e *Ending) Push(n int) {
	e.taken -= n
	e.end()
}

// Heads implements [Input]. In a simulation the end is not taken before what was sent before
// it.
func (e *Ending) Heads() []LaneHead {
	if e.waits == 0 {
		return nil
	}
	for _, in := range e.before {
		if len(in.Heads()) > 0 {
			return nil
		}
	}
	return []LaneHead{{}}
}

// Before returns the inputs of which everything is taken before the end.
func (e *Ending) Before() []Input { return e.before }

// Waiting implements [Input].
func (e *Ending) Waiting() int { return e.waits }

// LaneOf implements [Input].
func (e *Ending) LaneOf(int) uint64 { return 0 }

// Say implements [Input].
func (e *Ending) Say(int) string { return Ended{}.String() }

// CopyTaken implements [Input].
func (e *Ending) CopyTaken(_, n int) any { return make(ends, n) }
