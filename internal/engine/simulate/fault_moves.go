package simulate

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/engine"
)

// A delayedMessage is a delayed message, which later ones overtake.
type delayedMessage struct {
	id   uint64        // of its lane, which it has to itself
	from engine.Object // the lane from which it was taken
	loc  *engine.Location
	in   engine.Input
	text string
	take func()
}

// delay sets the taken message aside. The mu of its location is held.
func (d *Simulation) delay(m *Move) {
	f, op := &d.faults, m.in.Base().Op
	lane := op.Lane(m.ID)
	f.delays[lane]++
	x := &delayedMessage{id: engine.ChainDigest(m.ID, f.delays[lane]) &^ (1 << 63), from: lane, loc: m.loc, in: m.in, text: m.Value()}
	x.take = m.in.Lift(m.head, false)
	f.late = append(f.late, x)
	m.loc.Queued++ // it still waits
	lane = op.Lane(x.id)
	d.footprint.touch(lane, engine.Sends)
	d.footprint.effect.Sent = append(d.footprint.effect.Sent, lane)
}

// arrive takes a delayed message, unless it is lost. The messages that were behind it come before or after it. The mu of its
// location is held.
func (d *Simulation) arrive(x *delayedMessage, what fate) {
	d.footprint.touch(x.from, engine.Takes)
	f := &d.faults
	f.late = slices.DeleteFunc(f.late, func(y *delayedMessage) bool { return x == y })
	if what != lost {
		x.take()
	}
}

// faultMoves adds the faults that can happen next to all, the possible moves. Each fault is disabled by some move in all, so that
// a run can also end without it.
func (d *Simulation) faultMoves(all []Move) []Move {
	f := &d.faults
	if !f.any {
		return all
	}
	for _, x := range f.late {
		if !x.loc.Finished {
			all = append(all, Move{Name: Name{Takes, int32(x.loc.Number), x.in.Base().Op.Index, x.id}, loc: x.loc, in: x.in, delayed: x})
		}
	}
	for i, s := range d.g.Locations {
		if at := &f.at[i]; at.isolated && at.lost > 0 && d.hasMessage(s) {
			all = append(all, Move{Name: Name{Kind: Heals, Location: int32(i)}, loc: s})
		}
	}
	regular := all
	for i, s := range d.g.Locations {
		if !f.at[i].possible || s.Finished {
			continue
		}
		if f.left.Isolations > 0 && !f.at[i].isolated && d.hasMessage(s) {
			all = append(all, Move{Name: Name{Kind: Isolates, Location: int32(i)}, loc: s})
		}
		if f.left.Halts > 0 && slices.ContainsFunc(regular, func(m Move) bool { return m.at(s) }) {
			all = append(all, Move{Name: Name{Kind: Halts, Location: int32(i)}, loc: s})
		}
		if f.left.Crashes > 0 && len(f.at[i].calls) > 0 {
			all = append(all, Move{Name: Name{Kind: Crashes, Location: int32(i)}, loc: s})
		}
	}
	return all
}

// at reports whether a location, or a caller of its ports, makes the move.
func (m *Move) at(s *engine.Location) bool {
	if m.client != nil && m.client.turn.Op != nil {
		return m.client.turn.Op.Loc == s
	}
	return m.loc == s && m.Kind != Heals
}

// hasMessage reports whether a message that goes to s or comes from it can be taken.
func (d *Simulation) hasMessage(s *engine.Location) bool {
	f := &d.faults
	if !f.at[s.Number].linked {
		return false
	}
	for op, l := range f.edges {
		if (l.From == s || l.To == s) && !l.To.Finished && l.To.Inputs[op.Index].Waiting() > 0 {
			return true
		}
	}
	return slices.ContainsFunc(f.late, func(x *delayedMessage) bool {
		l := f.edges[x.in.Base().Op]
		return (l.From == s || l.To == s) && !l.To.Finished
	})
}

// fail makes a move that is a fault, or the end of one.
func (d *Simulation) fail(m *Move) {
	f := &d.faults
	at := &f.at[m.loc.Number]
	switch m.Kind {
	case Isolates:
		d.footprint.touch(of(m.loc, wire), engine.Writes)
		f.left.Isolations--
		at.isolated, at.lost = true, 0
	case Heals:
		d.footprint.touch(of(m.loc, wire), engine.Writes)
		at.isolated = false
	case Crashes:
		d.crash(m.loc)
	case Halts:
		d.footprint.touch(of(m.loc, life), engine.Writes)
		f.left.Halts--
		at.halted = true
		m.loc.Halt(fmt.Errorf("%w: %s", ErrHalted, m.loc.Name))
		select {
		case <-d.g.Done(): // a caller that waits for the end sees it
			d.footprint.effect.All = true
		default:
		}
	}
}

// faultText returns a fault as traces name it.
func (m *Move) faultText() string {
	switch m.Kind {
	case Isolates:
		return "cut " + m.loc.Name + " off from all other locations: messages to it and from it are lost"
	case Heals:
		return "let messages to " + m.loc.Name + " and from it through again"
	case Crashes:
		return "crash " + m.loc.Name + ", which goes on with what it has kept"
	}
	return "halt " + m.loc.Name + " for ever"
}
