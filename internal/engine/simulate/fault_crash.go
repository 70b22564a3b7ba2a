package simulate

import (
	"slices"

	"github.com/millrace/millrace/internal/engine"
)

// A location that keeps its state makes a move and keeps it at once. So a crash between two moves changes only two things: a call
// that was made and whose answer is not kept is made again; and a caller does not learn what became of its record. The clock and
// deadlines are kept. In the model the answer to a call is kept when it is taken, since it cannot be observed whether that was
// earlier.

// CallsShareNothing declares that functions of calls share nothing, except among calls of one key.
func (d *Simulation) CallsShareNothing() { d.callsShareNothing = true }

// A madeCall is a call whose answer is not kept.
type madeCall struct {
	in          engine.Input // where the answer waits
	lane        uint64
	suspended   *suspendedCall // if it has not returned; otherwise nil
	text        string
	by          string // what it is placed by, if not its key
	placedByKey bool   // it is placed by its key
	again       func() // queues it to be made again
}

// call makes a call.
func (d *Simulation) call(m *Move) {
	if !d.faults.crashes || !d.faults.at[m.loc.Number].possible {
		d.callNow(m)
		return
	}
	c := madeCall{in: m.loc.Inputs[m.calls.Operator().Index], text: m.calls.CallText(m.call), again: m.calls.Again(m.call)}
	by, ok := m.calls.PlacedBy(m.call)
	c.by, c.placedByKey = by, !ok
	call, returned := d.callNow(m)
	if d.g.Err() != nil { // there is no answer
		return
	}
	if c.suspended = call; returned {
		c.answered()
	}
	d.footprint.touch(of(m.loc, made), engine.Adds)
	at := &d.faults.at[m.loc.Number]
	at.calls = append(at.calls, c)
}

// answered records that the function has returned and that its answer waits.
func (c *madeCall) answered() { c.suspended, c.lane = nil, c.in.LaneOf(c.in.Waiting()-1) }

// returned records that the function of a call that was at a point has returned.
func (d *Simulation) returned(c *suspendedCall) {
	if !d.faults.crashes {
		return
	}
	all := d.faults.at[c.loc.Number].calls
	i := slices.IndexFunc(all, func(m madeCall) bool { return m.suspended == c })
	if i >= 0 && d.g.Err() == nil {
		d.footprint.touch(of(c.loc, made), engine.Adds)
		all[i].answered()
	}
}

// keeps is called when a record is taken. If the record is an answer, it is kept.
func (d *Simulation) keeps(m *Move) {
	if !d.faults.crashes {
		return
	}
	at := &d.faults.at[m.loc.Number]
	i := slices.IndexFunc(at.calls, func(c madeCall) bool { return c.suspended == nil && c.in == m.in && c.lane == m.ID })
	if i >= 0 {
		d.footprint.touch(of(m.loc, made), engine.Adds)
		at.calls = slices.Delete(at.calls, i, i+1)
	}
}

// crash repeats calls whose answers are not kept. At a location whose keys are divided, one partition crashes. Which keys it
// contains is not known, so any may be in it, except that keys of one affinity are in one partition.
func (d *Simulation) crash(s *engine.Location) {
	f := &d.faults
	f.left.Crashes--
	d.footprint.touch(of(s, made), engine.Writes)
	at := &f.at[s.Number]
	var keys []placed
	for _, c := range at.calls {
		if !slices.Contains(keys, c.placed()) {
			keys = append(keys, c.placed())
		}
	}
	spared := 0 // a bit set in which at least one bit is clear
	if s.Partitioned() && len(keys) > 1 {
		spared = d.choose.Choose(1<<len(keys) - 1)
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for i, c := range slices.Backward(at.calls) { // from the last, so that each returns to its place
		if c.suspended != nil && !slices.Contains(d.suspended, c.suspended) {
			continue // its function waits at a port, and this move is made within its own
		}
		if spared&(1<<slices.Index(keys, c.placed())) != 0 {
			continue
		}
		at.calls = slices.Delete(at.calls, i, i+1)
		if c.suspended == nil {
			d.forget(s, c)
		} else {
			d.breakOff(s, c.suspended)
		}
		c.again()
	}
}

// A placed identifies what is in one partition: the calls of an affinity, or of a key.
type placed struct {
	by  string
	key uint64
}

func (c *madeCall) placed() placed {
	if c.placedByKey {
		return placed{key: c.key()}
	}
	return placed{by: c.by}
}

// key returns a number that distinguishes the key of a call from others.
func (c *madeCall) key() uint64 {
	if c.suspended != nil {
		return c.suspended.name.ID
	}
	return c.lane
}

// breakOff ends a call that is at a point. What it did before that is done.
func (d *Simulation) breakOff(s *engine.Location, c *suspendedCall) {
	c.stop()
	s.Calls.Add(-1) // as its answer would
	d.suspended = slices.DeleteFunc(d.suspended, func(x *suspendedCall) bool { return x == c })
	d.g.Note(func() string {
		return "the call " + c.text + " of " + c.calls.Operator().String() + " is broken off, and will be made again"
	})
}

// forget drops a waiting answer, with the location's mu held.
func (d *Simulation) forget(s *engine.Location, c madeCall) {
	i := c.in.Waiting() - 1
	for c.in.LaneOf(i) != c.lane {
		i--
	}
	c.in.Lift(i, false)
	s.Queued--
	lane := c.in.Base().Op.Lane(c.lane)
	d.footprint.touch(lane, engine.Takes)
	d.footprint.effect.Took = append(d.footprint.effect.Took, lane)
	d.g.Note(func() string {
		return "the answer to the call " + c.text + " of " + c.in.Base().Op.String() + " is lost, and the call will be made again"
	})
}

// loseAck chooses whether a caller learns what becomes of what it is about to send. It returns an error if the caller does not
// learn it and nothing is accepted.
func (d *Simulation) loseAck(c *client, t engine.Turn) error {
	f := &d.faults
	c.ackLost = false
	if f.left.LostAcks == 0 || t.Action != "send to" || !f.at[t.Op.Loc.Number].possible {
		return nil
	}
	what := d.choose.Choose(3)
	if what == 0 {
		return nil
	}
	f.left.LostAcks--
	d.g.Note(func() string {
		return "what is sent to " + t.Op.String() + [...]string{1: " is kept", 2: " is not kept"}[what] + ", and its sender is not told"
	})
	if what == 2 {
		return engine.ErrUnkept
	}
	c.ackLost = true
	return nil
}

// Kept implements [engine.Turns].
func (d *Simulation) Kept() error {
	if c := d.running; c != nil && !d.inline && c.ackLost {
		c.ackLost = false
		return engine.ErrUnknown
	}
	return nil
}
