package sim

import "context"

// Point says that something else may happen here, between what a function did before and what it
// does after: another call of a MapAsync, a step, a use of a port. A function of a MapAsync that is
// simulated is one move otherwise, so that no other call comes between a read and a write of a store
// that both use. Ctx is that which the function was given, or that of the schedule or the client.
// Where is for whoever reads the story of a schedule that fails, such as "between read and write".
//
// Outside of a simulation it does nothing, so it may stay in code that is used in production; it
// costs the look-up of a value in a context then, linear in the number of contexts behind ctx. In a
// simulation it is called by the goroutine of the function, and not by one that the function started.
// It does not return if the simulation ends, or if a crash has the call made again: deferred functions
// run. A function that recovers what it panics with must panic with it again.
func Point(ctx context.Context, where string) {
	if s, ok := ctx.Value(simKey{}).(*Sim); ok && s.simulation != nil {
		s.simulation.Point(where)
	}
}
