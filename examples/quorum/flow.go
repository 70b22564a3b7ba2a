package main

import (
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// Coordinator is where the votes are counted.
type Coordinator struct{ dataflow.Process }

// A ballot is what a replica sends: whether it is for a request.
type ballot struct {
	Request string
	Yes     bool
}

// A vote is a ballot with the name of the replica that cast it.
type vote struct {
	Replica string
	ballot
}

// A tally is the votes on one request so far.
type tally struct{ Yes, No int }

// A quorum collects the votes of replicas and says what a majority of them wants.
type quorum struct {
	ballots  *dataflow.KeyedInputPort[string, ballot]  // by replica
	verdicts *dataflow.EntryOutputPort[string, string] // by request
}

// newQuorum builds the flow for a number of replicas.
func newQuorum(flow *dataflow.Flow, replicas int) quorum {
	coordinator := dataflow.At[Coordinator](flow)
	ballots, cast := keyedstream.Input[string, ballot](coordinator, "ballots")

	signed := keyedstream.MapWithKey(cast, func(replica string, b ballot) vote { return vote{replica, b} })
	votes := keyedstream.Rekey(signed, func(_ string, v vote) string { return v.Request })
	// A replica that has heard nothing sends its ballot again.
	resent := keyedstream.AssumeRepeats(votes)

	once := keyedstream.Unique(resent)
	ordered := keyedstream.AssumeOrder(once, "the verdict is the same in every order: there are not enough replicas for both")
	decided := keyedstream.FoldEarlyStop(ordered, noVotes, countTo(replicas))
	verdicts := keyedsingleton.Map(decided, verdict)

	return quorum{ballots, keyedsingleton.Output(verdicts, "verdicts")}
}

func noVotes() tally { return tally{} }

// countTo returns a function that counts a vote and says whether the request is
// decided: a majority is for it, or so many are against it that no majority can be.
func countTo(replicas int) func(*tally, vote) bool {
	majority := replicas/2 + 1
	return func(t *tally, v vote) (decided bool) {
		if v.Yes {
			t.Yes++
		} else {
			t.No++
		}
		return t.Yes == majority || t.No > replicas-majority
	}
}

// verdict keeps of a tally only what does not depend on who was quick: a request can
// pass with two votes to none or with two to one.
func verdict(t tally) string {
	if t.Yes > t.No {
		return "passed"
	}
	return "rejected"
}
