package main

import (
	"slices"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// Coordinator is where requests come and replies are counted.
type Coordinator struct{ dataflow.Process }

// Replica is one of several locations that each keep the values.
type Replica struct{ dataflow.Process }

// A request writes the value of a key, or reads what was written. Requests are numbered from 1 on.
// Of two values of a key, that of the later request counts.
type request struct {
	Number int
	Key    string
	Write  bool
	Value  int
}

// A version is a value, and the number of the request that wrote it; 0 if none did.
type version struct{ Number, Value int }

// A reply is what a replica has of the key after a request.
type reply struct {
	Request request
	Replica int
	Has     version
}

// A tally is the replies to a request so far: who has replied, and the latest value.
type tally struct {
	From   []int
	Latest version
}

// A quorum says how many replicas have to reply to a request.
type quorum struct{ Write, Read int }

// A store is values by key that several replicas keep, so that some of them may fail.
type store struct {
	requests *dataflow.InputPort[request]
	answers  *dataflow.EntryOutputPort[int, tally] // by number of the request
}

// newStore builds the flow for a number of replicas.
func newStore(flow *dataflow.Flow, replicas int, need quorum) store {
	coordinator := dataflow.At[Coordinator](flow)
	port, requests := dataflow.Input[request](coordinator, "requests")

	type replies = dataflow.Stream[reply, Coordinator, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]
	var all replies
	for i, replica := range dataflow.Members[Replica](flow, replicas) {
		there := dataflow.Send(requests, replica)
		kept := dataflow.Scan(there, func() shelf { return shelf{} }, func(s *shelf, q request, emit func(reply)) { emit(reply{q, i, s.keep(q)}) })
		back := dataflow.WeakenOrder(dataflow.Send(kept, coordinator))
		if i == 0 {
			all = back
		} else {
			all = dataflow.Merge(all, back)
		}
	}
	byRequest := dataflow.KeyBy(all, func(r reply) int { return r.Request.Number })
	ordered := keyedstream.AssumeOrder(byRequest, "any replicas will do: those that are read have one among them that was written")
	answered := keyedstream.FoldEarlyStop(ordered, func() tally { return tally{} }, need.count)
	return store{port, keyedsingleton.Output(answered, "answers")}
}

// A shelf is what a replica keeps.
type shelf map[string]version

// keep handles a request at a replica, and returns what it has of the key then.
func (s *shelf) keep(q request) version {
	if q.Write && q.Number > (*s)[q.Key].Number {
		(*s)[q.Key] = version{q.Number, q.Value}
	}
	return (*s)[q.Key]
}

// count counts a reply and says whether there are enough.
func (need quorum) count(t *tally, r reply) (enough bool) {
	if slices.Contains(t.From, r.Replica) { // the network has repeated it
		return false
	}
	t.From = append(t.From, r.Replica)
	if r.Has.Number >= t.Latest.Number {
		t.Latest = r.Has
	}
	if r.Request.Write {
		return len(t.From) == need.Write
	}
	return len(t.From) == need.Read
}
