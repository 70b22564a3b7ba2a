package simulate

import (
	"fmt"

	"github.com/millrace/millrace/internal/engine"
)

// Continue makes the graph begin, when it is started, with the steps of a recording, all at once. What the steps have sent and
// the recording has not taken waits then: records on their way to other locations or around a cycle, and calls without an answer.
// Inputs of the program are open and remember what they have accepted, so a repeated key is refused. Continue is called before
// the graph is started. The start fails if the recording does not fit the graph.
func (d *Simulation) Continue(from *engine.Recording) { d.recording = from }

// begin makes the recorded steps. For a search they are one event, on which all others depend.
func (d *Simulation) begin() {
	d.footprint.begin(Name{Kind: Settle})
	err := d.makeRecorded()
	t := &d.footprint.effect
	t.All, t.Touched, t.Took, t.Sent = true, nil, nil, nil
	for _, s := range d.g.Locations {
		for _, in := range s.Inputs {
			if in == nil {
				continue
			}
			for i := range in.Waiting() {
				t.Sent = append(t.Sent, in.Base().Op.Lane(in.LaneOf(i)))
			}
		}
	}
	if e, outer := d.footprint.end(); outer && d.listener != nil {
		d.listener.Made(e)
	}
	if err != nil {
		d.g.Fail(err)
	}
}

// makeRecorded makes the recorded steps, and then the first step of each location that has none in the recording.
func (d *Simulation) makeRecorded() error {
	d.recording.Mu.Lock()
	defer d.recording.Mu.Unlock()
	begun := make([]bool, len(d.g.Locations))
	for n := range d.recording.Plans {
		p := &d.recording.Plans[n].Plan
		s, err := load(d.g, d.recording, n)
		if err != nil {
			return err
		}
		if err := entered(s, p); err != nil {
			return fmt.Errorf("dataflow: step %d of the recording cannot be made again: %w", n+1, err)
		}
		begun[s.Number] = true
		if !d.Perform(s, p) {
			return d.g.Err()
		}
		d.Pass(int32(s.Number), max(p.Now, started))
	}
	for _, s := range d.g.Locations { // the recorded engine kept the order
		if d.level == Types {
			s.SettleLoose()
		}
	}
	d.g.Note(func() string { return fmt.Sprintf("make the %d steps of the recording", len(d.recording.Plans)) })
	for _, s := range d.g.Locations {
		if !begun[s.Number] {
			d.first(s)
			continue
		}
		d.tick(Tick{Clock: s.Times(), At: d.time.at[s.Number].initial.now})
	}
	return nil
}

// entered tells inputs what a step takes, after they have loaded it.
func entered(s *engine.Location, p *engine.Plan) error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	took := make(map[int32]int)
	for _, t := range p.Take {
		took[t.Op] += t.N
	}
	for op, in := range s.Inputs {
		if n := took[int32(op)]; n > 0 {
			if err := in.Entered(n); err != nil {
				return err
			}
		}
	}
	return nil
}
