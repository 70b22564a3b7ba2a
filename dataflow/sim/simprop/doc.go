// Package simprop makes gopter properties of flows: random clients, in every schedule.
//
//	simprop.Run(t, map[string]gopter.Prop{"no batch is over 100": simprop.Holds(
//		func(c simprop.Case[Ports]) sim.Spec[Ports] {
//			return sim.Spec[Ports]{Build: build, Clients: c.Clients(), Always: under100}
//		},
//		simprop.Traffic(
//			simprop.Values("xs", func(p Ports) *dataflow.InputPort[int] { return p.Xs }, gen.IntRange(0, 60)),
//			simprop.Close("xs", func(p Ports) *dataflow.InputPort[int] { return p.Xs }),
//		),
//	)})
//
// [Traffic] generates a [Case], which is what clients do at ports. [Holds] tries the schedules of
// each case with sim.Check. [Run] checks the properties of a test, and prints how to reproduce a
// failure. A failed property reports the smallest case that was found, and its smallest schedule.
//
// Crashes, lost messages and other faults are drawn too if [Limits] allows them. A failed case
// shrinks to those faults that it needs to fail.
//
// [Sequential] and [Parallel] compare a flow with a [Model]: a state, and what commands do with it.
// Instead of properties, the model says what each command may return.
//
// A property that holds has been tried in all schedules of its cases, but in no other cases. To try
// all small cases, use [Small].
package simprop
