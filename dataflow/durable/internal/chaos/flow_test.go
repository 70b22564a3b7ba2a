package chaos

import (
	"context"
	"slices"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// The flow under test releases a request at its third distinct voter. The result lists
// these voters, so it shows the order in which the votes arrived. A request also belongs
// to the first client that claims it.

type cluster struct{ dataflow.Cluster }

const quorum = 3

type vote struct {
	ID    uint64 // identifies the vote, not the attempt to send it
	Voter int
	Value int
}

type tally struct {
	Voters []int
	Sum    int
}

func (a tally) equal(b tally) bool { return a.Sum == b.Sum && slices.Equal(a.Voters, b.Voters) }

type ports struct {
	votes    *dataflow.SharedKeyedInputPort[string, vote]
	claims   *dataflow.EntryInputPort[string, uint64]
	released *dataflow.EntryOutputPort[string, tally]
	claimed  *dataflow.EntryOutputPort[string, uint64]
}

func build(f *dataflow.Flow) ports { return buildWith(f, func(vote) {}) }

// buildSlow builds the same flow with slow steps, so that a stopped process is likely to
// be in the middle of a step.
func buildSlow(f *dataflow.Flow) ports {
	return buildWith(f, func(v vote) {
		if v.Voter == 0 {
			pass(context.Background(), 2*time.Millisecond)
		}
	})
}

func buildWith(f *dataflow.Flow, counting func(vote)) ports {
	at := dataflow.At[cluster](f)
	votes, sent := keyedstream.RetriedInput[string, vote](at, "votes")
	once := keyedstream.AssumeOnce(sent, "what a voter says again is not counted")
	cast := keyedstream.AssumeOrder(once, "the result tells the order in which votes came in")
	claims, claimed := keyedsingleton.Input[string, uint64](at, "claims")
	tallies := keyedstream.FoldEarlyStop(cast, func() tally { return tally{} }, func(t *tally, v vote) bool {
		counting(v)
		if slices.Contains(t.Voters, v.Voter) {
			return false
		}
		t.Voters = append(t.Voters, v.Voter)
		t.Sum += v.Value
		return len(t.Voters) == quorum
	})
	return ports{votes, claims, keyedsingleton.Output(tallies, "released"), keyedsingleton.Output(claimed, "claimed")}
}
