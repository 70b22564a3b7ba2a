package simulate

import "github.com/millrace/millrace/internal/engine"

// A lane is where a record can come from next: an input, a key of a keyed input,
// since keys have no order between them, or the clock.
type lane struct {
	at       int          // position among the lanes of the component
	in       engine.Input // nil for the clock
	head     int          // index of the record in what in has accepted
	deadline int64        // of the clock
}

// lanes returns the lanes of a component that have a record.
func (d *Simulation) lanes(s *engine.Location, p *engine.Component) []lane {
	var all []lane
	at := 0
	for _, in := range p.Inputs {
		for _, i := range in.Heads() {
			all = append(all, lane{at: at + i.Lane, in: in, head: i.At})
		}
		at += in.Width()
	}
	if p.Clock && !s.Stopping {
		if deadline, ok := s.Deadline(); ok {
			all = append(all, lane{at: at, deadline: deadline})
		}
	}
	return all
}

// inOrder returns the lanes from which a record may come next where only cuts are
// observed: between two cuts one order of lanes stands for all.
func inOrder(lanes []lane, last int) []lane {
	for i, l := range lanes {
		if l.at >= last {
			return lanes[i:]
		}
	}
	return lanes
}
