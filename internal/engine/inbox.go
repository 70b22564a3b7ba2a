package engine

import "slices"

// Inbox returns what stands for the order in which the location has accepted what waits.
func (s *Location) Inbox() Object { return Object{int32(s.Number), -1<<30 + 1, 0} }

// Half returns what stands for the part of a step of the location that was made.
func (s *Location) Half() Object { return Object{int32(s.Number), -1<<30 + 2, 0} }

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
