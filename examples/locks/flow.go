package main

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
)

// Keeper is where the locks are kept.
type Keeper struct{ dataflow.Process }

// A keeper gives each lock to one client at a time.
type keeper struct {
	requests *dataflow.KeyedInputPort[string, request] // by client
	notices  *dataflow.OutputPort[dataflow.Entry[string, notice]]
}

type (
	// asked is what clients ask for, in the order of each client.
	asked = dataflow.KeyedStream[string, request, Keeper, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	// told is what happens to each lock, in the order in which it happens.
	told = dataflow.KeyedStream[string, notice, Keeper, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
)

// newKeeper builds the flow.
func newKeeper(flow *dataflow.Flow) keeper {
	at := dataflow.At[Keeper](flow)
	port, requests := keyedstream.Input[string, request](at, "requests")
	return keeper{port, keyedstream.Output(keep(requests), "notices")}
}

// keep says what becomes of requests. What a lock is asked for, and the end of its lease, are
// in one order: a release is before the end of the lease or after it, and nobody can see it
// otherwise.
func keep(requests asked) told {
	signed := keyedstream.MapWithKey(requests, func(client string, r request) request { return r.from(client) })
	byLock := keyedstream.Rekey(signed, func(_ string, r request) string { return r.Lock })
	notices, _ := keyedstream.TimedMachine(byLock, unlocked, (*lock).handle, (*lock).expire,
		"a lock goes to whoever asks first, and a lease ends where its timer falls between the requests")
	return notices
}
