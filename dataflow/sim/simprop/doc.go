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
// [Traffic] generates what clients do at ports, a [Case]. [Holds] has sim.Check try the schedules of
// each case. [Run] checks the properties of a test, and prints how to see a failure again. What a
// property reports is the smallest case that was found, and the smallest schedule of it.
//
// Crashes, lost messages and other faults are drawn too if [Limits] has them, and a case that fails
// shrinks to those without which it does not.
//
// [Sequential] and [Parallel] compare a flow with a [Model]: a state, and what commands do with
// it. Instead of properties there is what each command may return.
//
// A property that holds has been tried in all schedules of its cases and in no other case. To try
// all small cases, use [Small].
package simprop
