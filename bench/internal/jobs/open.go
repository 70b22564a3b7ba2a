package jobs

import (
	"fmt"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
)

// openID is set in the ids of requests that are not answered.
const openID = 1 << 63

// OpenRequests is a round trip while other requests wait for their answers: they were put and are not
// answered. The flow is compared with the same flow without open requests, and with a mutex whose set of
// accepted ids has as many.
func OpenRequests() []Job {
	var jobs []Job
	for _, open := range []int{100_000, 1_000_000, 5_000_000} {
		jobs = append(jobs, Job{
			Name: "RoundTrip", Params: fmt.Sprintf("job=map/callers=1/open=%d", open), CPU: true, Rounds: 5, Slow: true,
			Targets: []Target{{AtMost: 2}, {To: "mutex", AtMost: 1}},
			Impls: []ratio.Impl{
				{Name: "none", New: func() ratio.Run { return ask(newOpen(0), "map", 1, false) }},
				{Name: "mutex", New: func() ratio.Run { return ask(lockedOpen(open), "map", 1, false) }},
				{Name: "millrace", New: func() ratio.Run { return ask(newOpen(open), "map", 1, false) }},
			},
		})
	}
	return jobs
}

// newOpen returns a service with the given number of open requests.
func newOpen(open int) service {
	f := dataflow.New()
	in, requests := keyedsingleton.Input[uint64, uint64](dataflow.At[bench](f), "requests")
	answered := keyedsingleton.FilterWithKey(requests, func(id, _ uint64) bool { return id&openID == 0 })
	out := keyedsingleton.Output(keyedsingleton.Map(answered, answer()), "answers")
	s := newFlowService(start(f), in, out)
	for i := range uint64(open) {
		must(in.Put(background, openID|i, 0))
	}
	return s
}

// lockedOpen returns a service by hand that has accepted the given number of requests.
func lockedOpen(open int) service {
	s := &locked{work: newWork("map", true)}
	for i := range uint64(open) {
		s.work.accepted[openID|i] = struct{}{}
	}
	return s
}
