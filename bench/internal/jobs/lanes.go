package jobs

import (
	"fmt"

	"github.com/millrace/millrace/bench/internal/ratio"
)

// lanes are services that each serve some of the ids.
type lanes []service

func newLanes(n int, make func() service) lanes {
	all := lanes{}
	for range n {
		all = append(all, make())
	}
	return all
}

func (l lanes) ask(id, item uint64) uint64 { return l[id%uint64(len(l))].ask(id, item) }

func (l lanes) close() {
	for _, s := range l {
		s.close()
	}
}

// laneGrowth is RoundTrip with eight callers and ids divided over several flows,
// or over several mutexes.
func laneGrowth() []Job {
	var jobs []Job
	for _, n := range []int{1, 2, 4, 8} {
		impl := func(name string, make func() service) ratio.Impl {
			return ratio.Impl{Name: name, New: func() ratio.Run { return ask(newLanes(n, make), "map", 8, false) }}
		}
		jobs = append(jobs, Job{
			Name: "GrowthLanes", Params: fmt.Sprintf("lanes=%d", n), Plot: "lanes", X: float64(n), Rounds: 7,
			Impls: []ratio.Impl{
				impl("mutex", func() service { return &locked{work: newWork("map", true)} }),
				impl("channel", func() service { return newExecutor(newWork("map", true)) }),
				impl("millrace", func() service { return newFlowMap() }),
			},
		})
	}
	return jobs
}
