package sim

// A Counterexample is a schedule in which a property does not hold.
type Counterexample struct {
	trace string
}

// Trace returns the choices of the schedule, for [Trace] and for the flag -sim.replay.
func (c *Counterexample) Trace() string { return c.trace }

// counterexample returns the schedule of a run that failed.
func (x subject) counterexample(run execution) *Counterexample {
	return &Counterexample{trace: run.trace}
}
