package main

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// Coordinator is where requests come and replies are counted.
type Coordinator struct{ dataflow.Process }

// Replica is one of several locations that each keep the value.
type Replica struct{ dataflow.Process }

// A request writes a value, or reads what was written. Requests are numbered from 1 on. Of
// two values, that of the later request counts.
type request struct {
	Number int
	Write  bool
	Value  int
}

// A reply is what a replica has after a request.
type reply struct {
	Request request
	Replica int
	Version int // the number of the request that wrote the value; 0 if none did
	Value   int
}

// A tally is the replies to a request so far: who has replied, and the latest value.
type tally struct {
	From   []int
	Latest reply
}

// A quorum says how many replicas have to reply to a request.
type quorum struct{ Write, Read int }

// A register is a value that several replicas keep, so that some of them may fail.
type register struct {
	requests *dataflow.InputPort[request]
	answers  *dataflow.EntryOutputPort[int, tally] // by number of the request
}

// newRegister builds the flow for a number of replicas.
func newRegister(flow *dataflow.Flow, replicas int, need quorum) register {
	coordinator := dataflow.At[Coordinator](flow)
	port, requests := dataflow.Input[request](coordinator, "requests")

	type replies = dataflow.Stream[reply, Coordinator, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]
	var all replies
	for i, replica := range dataflow.Members[Replica](flow, replicas) {
		there := dataflow.Send(requests, replica)
		kept := dataflow.Scan(there, func() reply { return reply{Replica: i} }, keep)
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
	return register{port, keyedsingleton.Output(answered, "answers")}
}

// keep handles a request at a replica.
func keep(has *reply, q request, emit func(reply)) {
	has.Request = q
	if q.Write && q.Number > has.Version {
		has.Version, has.Value = q.Number, q.Value
	}
	emit(*has)
}

// count counts a reply and says whether there are enough.
func (need quorum) count(t *tally, r reply) (enough bool) {
	for _, replica := range t.From {
		if replica == r.Replica { // the network has repeated it
			return false
		}
	}
	t.From = append(t.From, r.Replica)
	if r.Version >= t.Latest.Version {
		t.Latest = r
	}
	if r.Request.Write {
		return len(t.From) == need.Write
	}
	return len(t.From) == need.Read
}
