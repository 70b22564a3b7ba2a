package main

import (
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

// newKeeper builds the flow. What a lock is asked for, and the end of its lease, are in one order: a
// release is before the end of the lease or after it, and nobody can see it otherwise.
func newKeeper(flow *dataflow.Flow) keeper {
	port, requests := keyedstream.Input[string, request](dataflow.At[Keeper](flow), "requests")
	signed := keyedstream.MapWithKey(requests, func(client string, r request) request { r.Client = client; return r })
	byLock := keyedstream.Rekey(signed, func(_ string, r request) string { return r.Lock })
	notices, _ := keyedstream.TimedMachine(byLock, func() lock { return lock{} }, (*lock).handle, (*lock).expire,
		"a lock goes to whoever asks first, and a lease ends where its timer falls between the requests")
	return keeper{port, keyedstream.Output(notices, "notices")}
}
