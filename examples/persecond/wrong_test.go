package main

import (
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

// buildWrong builds a flow with a race: a slice decides by the number of requests that have passed
// in a second, but a request is counted only after it has gone through a cycle.
func buildWrong(flow *dataflow.Flow) Ports {
	gate := dataflow.At[Gate](flow)
	port, requests := keyedsingleton.Input[string, int](gate, "requests")
	loop, passed := dataflow.Cycle[Answer, dataflow.NoOrder](gate, "passed")
	counts := keyedstream.Count(dataflow.KeyBy(passed, func(a Answer) int { return a.Second }))

	tick := slice.At(gate)
	asked := slice.BatchEntries(tick, requests, "each request is looked at alone")
	used := slice.SnapshotEntries(tick, counts, "how many have passed until now")
	found := keyedsingleton.LookupKeyedSingleton(asked, slice.Passive(used))
	answers := slice.EmitEntries(keyedsingleton.Map(found, decideWrong))

	loop.Complete(dataflow.Filter(keyedsingleton.Values(answers), func(a Answer) bool { return a.Passes }))
	return Ports{port, keyedsingleton.Output(answers, "answers")}
}

func decideWrong(r dataflow.Pair[int, dataflow.Maybe[int]]) Answer {
	return Answer{Second: r.First, Passes: r.Second.Value < Limit}
}
