package jobs

import (
	"fmt"
	"math/bits"
	"math/rand/v2"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

const (
	requests = 1_000_000
	replicas = 5
	quorum   = 3
)

// A vote is one replica's answer to a request.
type vote struct {
	Request request
	Replica uint8
}

// votes returns the votes for some requests, mixed so that some are in flight at the
// same time.
func votes(requests, inFlight int) []vote {
	r := rand.New(rand.NewPCG(3, 4))
	all := make([]vote, 0, replicas*requests)
	for i := range uint64(requests) {
		for j := range uint8(replicas) {
			all = append(all, vote{request{i % 1000, i / 1000}, j})
		}
	}
	for i := range all {
		j := min(i+r.IntN(replicas*inFlight), len(all)-1)
		all[i], all[j] = all[j], all[i]
	}
	return all
}

// Quorum completes a request at the third of its five votes.
func Quorum() []Job {
	var jobs []Job
	for _, inFlight := range []int{1000, 50_000} {
		single := .6 // with one vote at a time
		if inFlight > 1000 {
			single = .5
		}
		all := lazily(func() []vote { return votes(requests, inFlight) })
		for _, x := range []struct {
			batch  int
			target float64
		}{{256, .5}, {1, single}} {
			jobs = append(jobs, Job{
				Name: "FoldEarlyStop", Params: fmt.Sprintf("inflight=%d/batch=%d", inFlight, x.batch), CPU: true, Slow: inFlight > 1000,
				Targets: []Target{{AtMost: x.target}},
				Impls: []ratio.Impl{
					{Name: "hand", New: func() ratio.Run { return handQuorum(all(), requests) }},
					{Name: "millrace", New: func() ratio.Run { return flowQuorum(all(), x.batch, requests) }},
				},
			})
		}
		jobs = append(jobs, Job{
			Name: "FoldEarlyStop", Params: fmt.Sprintf("inflight=%d/batch=256/remembered", inFlight), CPU: true, Slow: true,
			Impls: []ratio.Impl{
				{Name: "hand", New: func() ratio.Run { return handQuorum(all(), requests) }},
				{Name: "millrace", New: func() ratio.Run { return flowQuorum(all(), 256, requests) }},
				{Name: "retained", New: func() ratio.Run { return retainedQuorum(all(), requests) }},
				{Name: "sequenced", New: func() ratio.Run { return sequencedQuorum(all(), requests) }},
			},
		})
	}
	return jobs
}

// newVoter returns the body of the loop as one would write it by hand: it reports
// whether the vote completes a request.
func newVoter(work int) func(vote) bool {
	states := make(map[request]*ballot)
	return func(v vote) bool {
		s := states[v.Request]
		if s == nil {
			s = new(ballot)
			states[v.Request] = s
		}
		if s.done {
			return false
		}
		s.voted |= 1<<v.Replica | toil(v, work)
		s.done = bits.OnesCount8(s.voted) >= quorum
		return s.done
	}
}

// A ballot is the state of a request.
type ballot struct {
	voted uint8
	done  bool
}

func handQuorum(all []vote, want int) ratio.Run {
	states := make(map[request]*ballot)
	return ratio.Run{Close: func() { clear(states) }, Do: func() int {
		n := 0
		for _, v := range all {
			s := states[v.Request]
			if s == nil {
				s = new(ballot)
				states[v.Request] = s
			}
			if s.done {
				continue
			}
			if s.voted |= 1 << v.Replica; bits.OnesCount8(s.voted) >= quorum {
				s.done = true
				n++
			}
		}
		check("requests", n, want)
		return len(all)
	}}
}

// newQuorum builds the flow and counts what it completes. Each vote does the given
// amount of extra work.
func newQuorum(work int, how ...dataflow.Sequence[request]) (in *dataflow.InputPort[vote], completed *int, app *dataflow.App) {
	f := dataflow.New()
	in, vs := dataflow.Input[vote](dataflow.At[bench](f), "votes")
	completed = countQuorums(vs, work, how...)
	return in, completed, start(f)
}

// newSharedQuorum is newQuorum for several senders.
func newSharedQuorum(work int) (in *dataflow.SharedInputPort[vote], completed *int, app *dataflow.App) {
	f := dataflow.New()
	in, vs := dataflow.SharedInput[vote](dataflow.At[bench](f), "votes")
	completed = countQuorums(dataflow.AssumeOrder(vs, "three votes are three in any order"), work)
	return in, completed, start(f)
}

type ordered = dataflow.Stream[vote, bench, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]

func countQuorums(vs ordered, work int, how ...dataflow.Sequence[request]) *int {
	complete := keyedstream.FoldEarlyStop(
		dataflow.KeyBy(vs, requestOf()),
		func() uint8 { return 0 }, stepOf(work), how...)
	completed := new(int)
	keyedsingleton.Inspect(complete, func(uint8) { *completed++ })
	return completed
}

// requestOf and stepOf make the user's functions.
//
//go:noinline
func requestOf() func(vote) request { return func(v vote) request { return v.Request } }

//go:noinline
func stepOf(work int) func(*uint8, vote) bool {
	if work == 0 {
		return func(voted *uint8, v vote) bool {
			*voted |= 1 << v.Replica
			return bits.OnesCount8(*voted) >= quorum
		}
	}
	return func(voted *uint8, v vote) bool {
		*voted |= 1<<v.Replica | toil(v, work)
		return bits.OnesCount8(*voted) >= quorum
	}
}

// toil takes time proportional to work.
//
//go:noinline
func toil(v vote, work int) uint8 {
	x := v.Request.Seq
	for range work {
		hi, lo := bits.Mul64(x^0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9)
		x = hi ^ lo
	}
	if x == 1<<63 {
		return 1
	}
	return 0
}

// newRetained is newQuorum, but forgets a request after the given number of other
// requests.
func newRetained(keys int) (in *dataflow.InputPort[vote], completed *int, app *dataflow.App) {
	f := dataflow.New()
	in, vs := dataflow.Input[vote](dataflow.At[bench](f), "votes")
	complete := keyedstream.FoldEarlyStopWithin(
		dataflow.KeyBy(vs, requestOf()),
		func() uint8 { return 0 }, stepOf(0), keyedstream.Retain{Keys: keys}, "no vote is later than that")
	completed = new(int)
	keyedsingleton.Inspect(complete, func(uint8) { *completed++ })
	return in, completed, start(f)
}

func sequenced() dataflow.Sequence[request] {
	return dataflow.Sequenced(func(r request) (client, seq uint64) { return r.Client, r.Seq })
}

func flowQuorum(all []vote, batch, want int) ratio.Run {
	in, completed, app := newQuorum(0)
	return runQuorum(in, completed, app, all, batch, want)
}

func runQuorum(in *dataflow.InputPort[vote], completed *int, app *dataflow.App, all []vote, batch, want int) ratio.Run {
	return ratio.Run{
		Do: func() int {
			send(in, all, batch)
			check("requests", *completed, want)
			return len(all)
		},
		Close: func() { stop(app) },
	}
}

// retainFor is the number of requests that are remembered by the implementations that
// forget.
const retainFor = 100_000

func retainedQuorum(all []vote, want int) ratio.Run {
	in, completed, app := newRetained(retainFor)
	return runQuorum(in, completed, app, all, 256, want)
}

func sequencedQuorum(all []vote, want int) ratio.Run {
	in, completed, app := newQuorum(0, sequenced())
	return runQuorum(in, completed, app, all, 256, want)
}
