package jobs

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/samber/ro"

	"github.com/millrace/millrace/bench/internal/ratio"
)

// Growth returns the jobs that show how the cost grows with the number of keys,
// of operators in a chain, of members, and of lanes.
func Growth() []Job {
	return slices.Concat(keyGrowth(), operatorGrowth(), memberGrowth(), laneGrowth())
}

const growthEvents = 1_000_000

// keyGrowth is First with all keys known, and with all keys new.
func keyGrowth() []Job {
	var known, fresh []Job
	for _, keys := range []int{1000, 10_000, 100_000, 1_000_000, 10_000_000} {
		all := lazily(func() []uint64 { return makeKeys(keys, wordKey) })
		drawn := lazily(func() []uint64 {
			r := rand.New(rand.NewPCG(3, 1))
			events := make([]uint64, growthEvents)
			for i := range events {
				events[i] = all()[r.IntN(keys)]
			}
			return events
		})
		known = append(known, Job{
			Name: "GrowthKeys", Params: fmt.Sprintf("known/keys=%d", keys), CPU: true, Plot: "keys-known", X: float64(keys), Rounds: 5,
			Impls: []ratio.Impl{
				{Name: "hand", New: func() ratio.Run { return growth(all(), drawn(), handSeen) }},
				{Name: "millrace", New: func() ratio.Run { return growth(all(), drawn(), flowSeen) }},
			},
		})
		fresh = append(fresh, Job{
			Name: "GrowthKeys", Params: fmt.Sprintf("new/keys=%d", keys), CPU: true, Plot: "keys-new", X: float64(keys), Rounds: 5,
			Impls: []ratio.Impl{
				{Name: "hand", New: func() ratio.Run { return held(growth(nil, all(), handSeen)) }},
				{Name: "millrace", New: func() ratio.Run { return held(growth(nil, all(), flowSeen)) }},
			},
		})
	}
	return append(known, fresh...)
}

// growth sends keys, which is not measured, and then events, which is.
func growth(keys, events []uint64, make func([]uint64) ([]uint64, func([]uint64), func())) ratio.Run {
	_, see, done := make(events)
	for part := range slices.Chunk(keys, 256) {
		see(part)
	}
	return ratio.Run{
		Do: func() int {
			for part := range slices.Chunk(events, 256) {
				see(part)
			}
			return len(events)
		},
		Close: done,
	}
}

// operatorGrowth is a chain of maps.
func operatorGrowth() []Job {
	data := chainData(func(i int) int { return i })
	var jobs []Job
	for _, n := range []int{1, 2, 4, 8, 16, 32} {
		jobs = append(jobs, Job{
			Name: "GrowthOperators", Params: fmt.Sprintf("operators=%d", n), CPU: true, Plot: "operators", X: float64(n), Rounds: 7,
			Impls: []ratio.Impl{
				{Name: "loop", New: func() ratio.Run { return loopMaps(data, n) }},
				{Name: "millrace", New: func() ratio.Run { return flowMaps(data, n, 256) }},
				{Name: "millrace-one", New: func() ratio.Run { return flowMaps(data, n, 1) }},
				{Name: "samber/ro", New: func() ratio.Run { return roMaps(data, n) }},
				{Name: "channels", New: func() ratio.Run { return channelMaps(data, n) }},
			},
		})
	}
	return jobs
}

func roMaps(data []int, n int) ratio.Run {
	t, add := newTotal()
	return mapsRun(data, n, chainBlocks, t, func() {
		obs := ro.FromSlice(data)
		for _, step := range newSteps(n) {
			obs = ro.Pipe1(obs, ro.Map(step))
		}
		obs.Subscribe(ro.OnNext(add))
	}, nil)
}

func channelMaps(data []int, n int) ratio.Run {
	t, add := newTotal()
	return mapsRun(data, n, chainBlocks, t, func() {
		from := make(chan int, pipe)
		go func(to chan int) {
			for _, x := range data {
				to <- x
			}
			close(to)
		}(from)
		for _, step := range newSteps(n) {
			to := make(chan int, pipe)
			go func(from, to chan int) {
				for x := range from {
					to <- step(x)
				}
				close(to)
			}(from, to)
			from = to
		}
		for x := range from {
			add(x)
		}
	}, nil)
}
