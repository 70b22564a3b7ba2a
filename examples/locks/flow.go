package main

import (
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
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
	// ended is the leases whose time is over, each with its lock.
	ended = dataflow.Stream[dataflow.Entry[string, request], Keeper, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]
)

// newKeeper builds the flow.
func newKeeper(flow *dataflow.Flow) keeper {
	at := dataflow.At[Keeper](flow)
	port, requests := keyedstream.Input[string, request](at, "requests")
	return keeper{port, keyedstream.Output(keep(at, requests), "notices")}
}

// keep says what becomes of requests. What a lock is asked for, and what its timers say,
// is merged into one order: a release is before the end of the lease there or after it,
// and nobody can see it otherwise.
func keep(at Keeper, requests asked) told {
	loop, again := dataflow.Cycle[dataflow.Entry[string, request], dataflow.NoOrder](at, "ended leases")
	signed := keyedstream.MapWithKey(requests, func(client string, r request) request { return r.from(client) })
	byLock := keyedstream.Rekey(signed, func(_ string, r request) string { return r.Lock })

	inOrder := keyedstream.AssumeOrder(keyedstream.Merge(byLock, dataflow.Keyed(again)),
		"a lock goes to whoever asks first, and a lease ends where its timer falls between the requests")
	notices := keyedstream.Scan(inOrder, unlocked, (*lock).handle)
	loop.Complete(leaseEnds(notices))
	return notices
}

// leaseEnds sets a timer for each lease that is granted or renewed. A timer is not
// stopped when its lease is: the lock knows which lease it is at.
func leaseEnds(notices told) ended {
	leases := keyedstream.Filter(notices, func(n notice) bool { return n.Kind == granted || n.Kind == renewed })
	each := keyedstream.First(keyedstream.PrefixKey(leases, func(_ string, n notice) lease { return n.lease }))
	over := keyedsingleton.AfterEach(each, func(n notice) time.Duration { return n.For },
		"a lease that is neither renewed nor released in time ends by the clock")
	return dataflow.Map(keyedsingleton.Entries(over), func(e dataflow.Entry[dataflow.Pair[lease, string], notice]) dataflow.Entry[string, request] {
		return dataflow.Entry[string, request]{Key: e.Key.Second, Value: request{Kind: expire, lease: e.Key.First}}
	})
}
