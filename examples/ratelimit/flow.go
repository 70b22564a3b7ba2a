package main

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// Gate is where requests are let through or refused.
type Gate struct{ dataflow.Process }

// A limiter answers requests by its rule. It keeps an answer for one window at least and two at
// most.
type limiter struct {
	requests *dataflow.KeyedInputPort[string, string] // by client: the id of a request, which no other has
	answers  *dataflow.EntryOutputPort[string, answer]
	inUse    *dataflow.SingletonOutputPort[int] // permits of all clients
}

type (
	requests = dataflow.OrderedKeyedStream[string, string, Gate]
	notices  = dataflow.OrderedKeyedStream[string, notice, Gate]
	answers  = dataflow.KeyedSingleton[string, answer, Gate, bounds.RetainedValue]
)

// newLimiter builds the flow.
func newLimiter(flow *dataflow.Flow, r rule) limiter {
	port, asked := keyedstream.Input[string, string](dataflow.At[Gate](flow), "requests")
	told := limit(asked, r)
	inUse := dataflow.Sum(keyedstream.Values(keyedstream.Map(told, notice.inUse)))
	return limiter{
		requests: port,
		answers:  keyedsingleton.Output(answersOf(told, r), "answers"),
		inUse:    singleton.Output(inUse, "permits in use"),
	}
}

// limit answers the requests of each client and reports permits that come back.
func limit(asked requests, r rule) notices {
	told, _ := keyedstream.TimedMachine(asked, noPermits, r.ask, r.end,
		"of requests that race for a permit the one that is handled first has it, and the clock says whether a window is over")
	return told
}

// answersOf brings answers back to their requests.
func answersOf(told notices, r rule) answers {
	answered := keyedstream.Filter(told, func(n notice) bool { return n.Back == 0 })
	byRequest := keyedstream.Rekey(answered, func(_ string, n notice) string { return n.Request })
	inOrder := keyedstream.AssumeOrder(byRequest, "a request has one answer, so there is nothing to be put in order")
	each := keyedstream.FirstWithin(inOrder, dataflow.Retain{For: r.Window}, "who asked takes the answer within a window")
	return keyedsingleton.Map(each, func(n notice) answer { return n.answer })
}
