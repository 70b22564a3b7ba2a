// Command persecond lets a fixed number of requests of each second pass. It is the program of
// doc/proving.md, which proves that it does.
package main

import (
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// Gate is where requests pass or are refused.
type Gate struct{ dataflow.Process }

// Limit is how many requests of one second pass.
const Limit = 1

// Ports are what clients use: a request is an id and its second, and has one answer.
type Ports struct {
	Requests *dataflow.EntryInputPort[string, int]
	Answers  *dataflow.EntryOutputPort[string, Answer]
}

// An Answer says whether a request passes.
type Answer struct {
	Second int
	Passes bool
}

// Build builds the flow. The requests of a second are numbered in the order in which they are
// handled, and the number decides.
func Build(flow *dataflow.Flow) Ports {
	gate := dataflow.At[Gate](flow)
	port, requests := keyedsingleton.Input[string, int](gate, "requests")

	bySecond := dataflow.KeyBy(keyedsingleton.Entries(requests), func(r dataflow.Entry[string, int]) int { return r.Value })
	inOrder := keyedstream.AssumeOrder(bySecond, "of requests that race for a place the one that is handled first has it")
	numbered := keyedstream.Enumerate(inOrder)

	byRequest := keyedstream.Rekey(numbered, func(_ int, r dataflow.Pair[int, dataflow.Entry[string, int]]) string { return r.Second.Key })
	answers := keyedstream.First(keyedstream.AssumeOrder(byRequest, "a request has one answer"))
	return Ports{port, keyedsingleton.Output(keyedsingleton.Map(answers, decide), "answers")}
}

// decide answers a request by its number in its second.
func decide(r dataflow.Pair[int, dataflow.Entry[string, int]]) Answer {
	return Answer{Second: r.Second.Value, Passes: r.First < Limit}
}
