package simulate

import (
	"slices"

	"github.com/millrace/millrace/internal/engine"
)

// A location that keeps its state makes a move and keeps it at once, so a crash between two moves
// changes two things only: a call that was made, and whose answer is not kept, is made again;
// and a caller is not told what became of its record. The clock and deadlines are kept. In
// the model the answer to a call is kept when it is taken, since nobody can tell whether that
// was earlier.

// CallsShareNothing says that functions of calls share nothing but for calls of one key.
func (d *Simulation) CallsShareNothing() { d.apart = true }

// A madeCall is a call whose answer is not kept.
type madeCall struct {
	in    engine.Input // where the answer waits
	lane  uint64
	begun *begunCall // if it has not returned; else nil
	say   string
	by    string // what it is placed by, if not its key
	apart bool   // it is placed by its key
	again func() // has it wait to be made again
}

// call makes a call.
func (d *Simulation) call(m *Move) {
	if !d.faults.falls || !d.faults.at[m.loc.Number].may {
		d.callNow(m)
		return
	}
	c := madeCall{in: m.loc.Inputs[m.calls.Operator().Index], say: m.calls.SayCall(m.call), again: m.calls.Again(m.call)}
	by, ok := m.calls.PlacedBy(m.call)
	c.by, c.apart = by, !ok
	begun, returned := d.callNow(m)
	if d.g.Err() != nil { // there is no answer
		return
	}
	if c.begun = begun; returned {
		c.answered()
	}
	d.trail.touch(of(m.loc, made), engine.Adds)
	at := &d.faults.at[m.loc.Number]
	at.calls = append(at.calls, c)
}

// answered notes that the function has returned, and that its answer waits.
func (c *madeCall) answered() { c.begun, c.lane = nil, c.in.LaneOf(c.in.Waiting()-1) }

// returned notes that the function of a call that was at a point has returned.
func (d *Simulation) returned(c *begunCall) {
	if !d.faults.falls {
		return
	}
	all := d.faults.at[c.loc.Number].calls
	i := slices.IndexFunc(all, func(m madeCall) bool { return m.begun == c })
	if i >= 0 && d.g.Err() == nil {
		d.trail.touch(of(c.loc, made), engine.Adds)
		all[i].answered()
	}
}

// keeps notes that a record is taken: if it is an answer, it is kept.
func (d *Simulation) keeps(m *Move) {
	if !d.faults.falls {
		return
	}
	at := &d.faults.at[m.loc.Number]
	i := slices.IndexFunc(at.calls, func(c madeCall) bool { return c.begun == nil && c.in == m.in && c.lane == m.ID })
	if i >= 0 {
		d.trail.touch(of(m.loc, made), engine.Adds)
		at.calls = slices.Delete(at.calls, i, i+1)
	}
}

// crash has calls be made again whose answers are not kept. Of a location whose keys are divided
// one partition crashes; which keys are in it is not known, so any may be, but for those of one affinity,
// which are in one partition.
func (d *Simulation) crash(s *engine.Location) {
	f := &d.faults
	f.left.Crashes--
	d.trail.touch(of(s, made), engine.Writes)
	at := &f.at[s.Number]
	var keys []placed
	for _, c := range at.calls {
		if !slices.Contains(keys, c.placed()) {
			keys = append(keys, c.placed())
		}
	}
	spared := 0 // bits, of which at least one is not set
	if s.Partitioned() && len(keys) > 1 {
		spared = d.choose.Choose(1<<len(keys) - 1)
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for i, c := range slices.Backward(at.calls) { // from the last, so that each comes to its place again
		if c.begun != nil && !slices.Contains(d.begun, c.begun) {
			continue // its function waits at a port, and this move is made within its own
		}
		if spared&(1<<slices.Index(keys, c.placed())) != 0 {
			continue
		}
		at.calls = slices.Delete(at.calls, i, i+1)
		if c.begun == nil {
			d.forget(s, c)
		} else {
			d.breakOff(s, c.begun)
		}
		c.again()
	}
}

// placed is what is in one partition: the calls of an affinity, or of a key.
type placed struct {
	by  string
	key uint64
}

func (c *madeCall) placed() placed {
	if c.apart {
		return placed{key: c.key()}
	}
	return placed{by: c.by}
}

// key returns what tells the key of a call from others.
func (c *madeCall) key() uint64 {
	if c.begun != nil {
		return c.begun.name.ID
	}
	return c.lane
}

// breakOff ends a call that is at a point: what it did before is done.
func (d *Simulation) breakOff(s *engine.Location, c *begunCall) {
	c.stop()
	s.Calls.Add(-1) // as its answer would
	d.begun = slices.DeleteFunc(d.begun, func(x *begunCall) bool { return x == c })
	d.g.Note(func() string {
		return "the call " + c.say + " of " + c.calls.Operator().String() + " is broken off, and will be made again"
	})
}

// forget forgets an answer that waits, with the location's mu held.
func (d *Simulation) forget(s *engine.Location, c madeCall) {
	i := c.in.Waiting() - 1
	for c.in.LaneOf(i) != c.lane {
		i--
	}
	c.in.Lift(i, false)
	s.Queued--
	lane := c.in.Base().Op.Lane(c.lane)
	d.trail.touch(lane, engine.Takes)
	d.trail.effect.Took = append(d.trail.effect.Took, lane)
	d.g.Note(func() string {
		return "the answer to the call " + c.say + " of " + c.in.Base().Op.String() + " is lost, and the call will be made again"
	})
}

// loseAck chooses whether a caller is told what becomes of what it is about to send. It returns an
// error if it is not told and nothing is accepted.
func (d *Simulation) loseAck(c *client, t engine.Turn) error {
	f := &d.faults
	c.untold = false
	if f.left.LostAcks == 0 || t.Say != "send to" || !f.at[t.Op.Loc.Number].may {
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
	c.untold = true
	return nil
}

// Kept implements [engine.Turns].
func (d *Simulation) Kept() error {
	if c := d.running; c != nil && !d.inline && c.untold {
		c.untold = false
		return engine.ErrUnknown
	}
	return nil
}
