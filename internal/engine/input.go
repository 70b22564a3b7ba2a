package engine

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/millrace/millrace/internal/engine/codec"
)

// Reasons for which a record is refused. Package dataflow gives them their public names.
var (
	ErrClosed    = errors.New("dataflow: input is closed")
	ErrDuplicate = errors.New("dataflow: key is present already")
	ErrTaken     = errors.New("dataflow: somebody else has taken the entry")
)

// An Input is where records enter a location: an input of the program, the far end of an exchange, a cycle, or the answers of
// asynchronous calls. Records wait in it in the order of acceptance until the planner takes them for a step.
type Input interface {
	Base() *InputBase

	TakeAll()                // take everything that was accepted; mu is held
	Push(n int)              // push the next n of the taken records; see step.go
	Heads() []LaneHead       // the first record of each lane that has one; see port/lanes.go
	Waiting() int            // number of records accepted and not taken
	LaneOf(i int) uint64     // the lane of the accepted record with index i
	RecordText(i int) string // the accepted record with index i, for people

	// Lift removes waiting record i, with mu held, and returns a function that takes it. If again, the record keeps waiting.
	Lift(i int, again bool) (take func())

	CopyTaken(at, n int) any // copies of n taken records, from index at on
	Load(records any) error  // take what CopyTaken of an input of the same type returned, or an [Encoded]
	Entered(n int) error     // the last n loaded records have come in; see port/lanes.go

	Check(c codec.Codec) error                                        // why its records cannot be encoded without loss, or nil
	Types() []reflect.Type                                            // of its elements, or of keys and values; nil if records have no content
	AppendTaken(dst []byte, c codec.Codec, at, n int) ([]byte, error) // append the encoding of what CopyTaken returns

	// Accept queues a record of a history. It reports false if the record is refused.
	Accept(r *codec.Record, c codec.Codec) (ok bool, err error)
}

// An InputBase is the part that all inputs share: acceptance of records in one order, backpressure and the end.
type InputBase struct {
	Loc     *Location
	Op      *Op
	touched bool              // accepted something since the last take; guarded by the location's mu
	closed  bool              // guarded by the location's mu
	plan    Plan              // of a sender that runs the location; held by the token
	Shut    atomic.Bool       // no more records are accepted
	Retried bool              // a record may come more than once
	Divided bool              // its records are divided between partitions
	endings []*Ending         // endings of operators that follow it; fixed once compiled
	hear    []func(now int64) // listeners that follow it; fixed once compiled
}

// Base implements [Input].
func (d *InputBase) Base() *InputBase { return d }

// FromOutside reports whether the input is a port of the program.
func (d *InputBase) FromOutside() bool { return slices.Contains(d.Loc.Bases, d) }

// Refuse returns why nothing is accepted, or nil. It is called with mu held.
func (d *InputBase) Refuse() error {
	switch {
	case d.Loc.err != nil:
		return d.Loc.err
	case d.closed || d.Loc.Closing:
		return ErrClosed
	}
	return nil
}

// AwaitSpace waits until a record may be accepted; see [Driver]. It is called and returns with mu held.
func (d *InputBase) AwaitSpace(ctx context.Context) (Admission, error) {
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

// Accepted records, with mu held, that in has accepted n records. The token has to be notified afterwards.
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

// Take makes the inputs take everything that was accepted, and returns it in order. It reuses the memory of last, what was taken
// before. It is called with mu held by the holder of the token.
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
		s.freeClogged()
	}
	return taken
}

// Close ends the input. Closing twice is fine.
func (d *InputBase) Close() {
	s := d.Loc
	if s.Turn(Turn{Action: "close", Op: d.Op}) == nil {
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

// After gives the token back after the caller has run its own record. ok says whether that step completed. If it did not, or if
// the caller then made a step for others that failed, After returns why the flow failed.
func (s *Location) After(ok bool) error {
	if ok && !s.Left() {
		return nil
	}
	return s.Look(ok)
}

// Left gives the token back unless other callers left something, and reports whether they did. It is short enough to be inlined.
func (s *Location) Left() bool { return s.Stalled.Load() != 0 || !s.Token.Give() }

// Look is the rest of After, for a step that failed or when other callers left something.
func (s *Location) Look(ok bool) error {
	if ok {
		s.Mu.Lock()
		if s.Graph.Driver.Settle(s, 1) {
			return nil
		}
	}
	return s.Graph.Err()
}

// AddInput adds an input whose operator is op.
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

// Kick makes sure that accepted records are run, and unlocks mu. If the caller runs them and the step fails, Kick returns why.
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

// An Ending is an input with one record, which says that nothing more comes to an operator from the inputs before it: in event
// time, time has ended there. So the end has a place in the history, after everything that was accepted before it.
//
// The record is accepted when all ports before the operator have been closed. If something else precedes the operator as well,
// such as a timer or a call, the record is accepted when nothing more can happen at the location. A stopped flow accepts no
// ending. Neither does a flow whose history is kept outside: there a closed port says only that this process sends no more.
type Ending struct {
	InputBase
	end    func()
	before []Input // inputs from which everything is taken first; fixed once compiled
	ports  int     // number of ports among them
	other  bool    // something other than ports precedes the operator

	// guarded by the location's mu
	open     int  // number of ports before it that are not closed
	accepted bool // it was accepted, or came in a recording

	waits, taken int
}

// AtEnd arranges for end to be called in the step in which it is known that nothing more comes to op.
func AtEnd(op *Op, end func()) {
	s := op.Loc
	if s.Graph.Kept() {
		return
	}
	e := &Ending{InputBase: InputBase{Loc: s, Op: op}, end: end}
	s.AddInput(op, e)
	s.endings = append(s.endings, e)
}

// settleEndings finds the inputs before each ending, in order of construction.
func (s *Location) settleEndings() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for _, e := range s.endings {
		seen := make(map[*Op]bool)
		e.look(e.Op, seen)
		if !e.other && e.ports > 0 && e.open == 0 {
			e.announce()
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

// ended accepts, with mu held, the endings that waited only for this input, and reports whether there were any.
func (d *InputBase) ended() (some bool) {
	for _, e := range d.endings {
		if e.open--; e.open == 0 && !e.other && !d.Loc.Stopping {
			e.announce()
			some = true
		}
	}
	return some
}

// endTime accepts, with mu held, the next ending of a location at which nothing more can happen.
func (s *Location) endTime() bool {
	if s.Stopping || s.Edges.scc != nil {
		return false
	}
	for _, e := range s.endings {
		if !e.accepted {
			e.announce()
			return true
		}
	}
	return false
}

// NoEnd makes the location accept no ending by itself: only its history can contain one.
func (s *Location) NoEnd() { s.endings = nil }

func (e *Ending) announce() {
	if !e.accepted {
		e.accepted = true
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

// Heads implements [Input]. In a simulation the end is not taken before anything that was sent before it.
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

// Before returns the inputs from which everything is taken before the end.
func (e *Ending) Before() []Input { return e.before }

// Waiting implements [Input].
func (e *Ending) Waiting() int { return e.waits }

// LaneOf implements [Input].
func (e *Ending) LaneOf(int) uint64 { return 0 }

// RecordText implements [Input].
func (e *Ending) RecordText(int) string { return Ended{}.String() }

// CopyTaken implements [Input].
func (e *Ending) CopyTaken(_, n int) any { return make(ends, n) }
