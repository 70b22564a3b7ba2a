package sim

import "context"

// Point marks a place in a function at which other moves may happen: another call of a MapAsync, a
// step, or a use of a port. Without a Point, a simulated call of the function of a MapAsync is one
// move, so no other call comes between its read and its write of a store that both use. Ctx must be
// the context that the function was given, or that of the schedule or the client. Where describes the
// place in the story of a failed schedule, such as "between read and write".
//
// Outside a simulation Point does nothing, so it may stay in production code. It then costs the
// look-up of a value in a context, which is linear in the number of contexts that ctx is derived from.
//
// In a simulation Point must be called by the goroutine of the function, not by one that the function
// started. It does not return if the simulation ends, or if a crash causes the call to be made again:
// deferred functions run then. A function that recovers a panic of Point must panic with the same
// value again.
func Point(ctx context.Context, where string) {
	if s, ok := ctx.Value(simKey{}).(*Sim); ok && s.simulation != nil {
		s.simulation.Point(where)
	}
}
