package main

import (
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

// Counters is where things are counted.
type Counters struct{ dataflow.Process }

// An increment is a request to add to a counter. It has an id of its own, so that one
// that is sent again is not added again.
type increment struct {
	Counter string
	By      int
}

// A counter adds up increments and answers gets.
type counter struct {
	increments *dataflow.EntryInputPort[string, increment]
	acks       *dataflow.EntryOutputPort[string, increment]
	gets       *dataflow.EntryInputPort[string, string] // the name of a counter
	values     *dataflow.EntryOutputPort[string, int]
}

// newCounter builds the flow.
func newCounter(flow *dataflow.Flow) counter {
	at := dataflow.At[Counters](flow)
	add, increments := keyedsingleton.Input[string, increment](at, "increments")
	get, gets := keyedsingleton.Input[string, string](at, "gets")

	byCounter := dataflow.KeyBy(keyedsingleton.Values(increments), func(i increment) string { return i.Counter })
	totals := keyedstream.Sum(keyedstream.Map(byCounter, func(i increment) int { return i.By }))

	tick := slice.At(at)
	asked := slice.BatchEntries(tick, gets, "each get is answered alone, so it does not matter which come together")
	now := slice.Passive(slice.SnapshotEntries(tick, totals, "a get sees the totals as they are when it is handled"))
	found := keyedsingleton.LookupKeyedSingleton(asked, now)
	values := slice.EmitEntries(keyedsingleton.Map(found, valueOrZero))

	return counter{
		increments: add, acks: keyedsingleton.Output(increments, "acks"),
		gets: get, values: keyedsingleton.Output(values, "values"),
	}
}

// valueOrZero returns what a get has found. A lookup keeps those that found nothing: a
// counter that nobody has added to is 0, and who asks for it waits for no increment.
func valueOrZero(found dataflow.Pair[string, dataflow.Maybe[int]]) int {
	if total := found.Second; total.OK {
		return total.Value
	}
	return 0
}
