package main

import (
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// Gate is where requests are let through or refused.
type Gate struct{ dataflow.Process }

// A rule lets each client make so many requests in any window of time, wherever the
// window begins.
type rule struct {
	Limit  int
	Window time.Duration
}

// An answer says whether a request may pass, and how many more the client could make
// at once.
type answer struct {
	Passed bool
	Left   int
}

// A limiter answers requests by its rule.
type limiter struct {
	requests *dataflow.EntryInputPort[string, string] // by id: the name of a client
	answers  *dataflow.EntryOutputPort[string, answer]
	inUse    *dataflow.SingletonOutputPort[int] // permits of all clients
}

type (
	requests = dataflow.KeyedSingleton[string, string, Gate, bounds.BoundedValue]
	answers  = dataflow.KeyedSingleton[string, answer, Gate, bounds.BoundedValue]
	turns    = dataflow.KeyedStream[string, turn, Gate, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	steps    = dataflow.KeyedStream[string, step, Gate, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]
)

// newLimiter builds the flow.
func newLimiter(flow *dataflow.Flow, r rule) limiter {
	port, asked := keyedsingleton.Input[string, string](dataflow.At[Gate](flow), "requests")
	taken := takeTurns(asked, r)
	inUse := dataflow.Sum(keyedstream.Values(keyedstream.Map(taken, turn.permits)))
	return limiter{
		requests: port,
		answers:  keyedsingleton.Output(answersOf(taken), "answers"),
		inUse:    singleton.Output(inUse, "permits in use"),
	}
}

// takeTurns puts for each client its requests, and each of them again when its window
// is over, into one order, and says what comes of each.
func takeTurns(asked requests, r rule) turns {
	over := keyedsingleton.After(asked, r.Window,
		"a permit comes back when its window is over: a request that comes before that is refused, one after it is not")
	steps := keyedstream.Merge(byClient(asked, ask), byClient(over, giveBack))
	inOrder := keyedstream.AssumeOrder(steps, "of requests that race for a permit the one that is handled first has it")
	return keyedstream.Scan(inOrder, func() account { return account{free: r.Limit} }, (*account).take)
}

// byClient brings requests to their clients, as steps of a kind.
func byClient(asked requests, k kind) steps {
	return dataflow.Keyed(dataflow.Map(keyedsingleton.Entries(asked), func(e dataflow.Entry[string, string]) dataflow.Entry[string, step] {
		return dataflow.Entry[string, step]{Key: e.Value, Value: step{k, e.Key}}
	}))
}

// answersOf brings answers back to their requests.
func answersOf(taken turns) answers {
	answered := keyedstream.Filter(taken, func(t turn) bool { return t.Kind == ask })
	byRequest := keyedstream.Rekey(answered, func(_ string, t turn) string { return t.Request })
	each := keyedstream.First(keyedstream.AssumeOrder(byRequest, "a request has one answer, so there is nothing to be put in order"))
	return keyedsingleton.Map(each, func(t turn) answer { return t.answer })
}
