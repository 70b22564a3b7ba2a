package jobs

import (
	"fmt"
	"math/bits"
	"sync"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/dataflow"
)

const (
	memberRequests = 400_000
	longWork       = 75 // rounds of toil that make a vote cost 98 ns on one member
)

// Members divides FoldEarlyStop by key over members. With millrace, as many
// goroutines as members each send their part of the input to a member, and the
// members exchange it by keyedstream.Divide. Sender has a separate flow for each
// member, and the senders choose the member that owns the key, in batches of 256.
// Divided is the same with the input divided in advance. Channels is the exchange by
// hand.
func Members() []Job {
	var jobs []Job
	for _, w := range []struct {
		name   string
		work   int
		target float64
	}{{"46ns", 26, 1 / 1.6}, {"98ns", longWork, 1 / 1.75}} {
		all := lazily(func() []vote { return votes(memberRequests, 1000) })
		jobs = append(jobs, Job{
			Name: "Members", Params: "members=2/work=" + w.name,
			Targets: []Target{{AtMost: w.target}},
			Impls: []ratio.Impl{
				{Name: "one", New: func() ratio.Run { return divided(all(), 1, w.work) }},
				{Name: "millrace", New: func() ratio.Run { return exchanged(all(), 2, w.work) }},
				{Name: "sender", New: func() ratio.Run { return chosenBySender(all(), 2, w.work) }},
				{Name: "divided", New: func() ratio.Run { return divided(all(), 2, w.work) }},
				{Name: "channels", New: func() ratio.Run { return channelMembers(all(), 2, w.work) }},
			},
		})
	}
	return jobs
}

// member returns which of n members owns a key.
func member(r request, n int) int {
	hi, lo := bits.Mul64(r.Client^golden, r.Seq^0xbf58476d1ce4e5b9)
	hi, _ = bits.Mul64((hi^lo)*golden, uint64(n))
	return int(hi)
}

// A crew is several identical flows, each with an input of type P.
type crew[P any] struct {
	in        []P
	completed []*int
	apps      []*dataflow.App
}

func newCrew[P any](n, work int, flow func(work int) (P, *int, *dataflow.App)) *crew[P] {
	c := &crew[P]{make([]P, n), make([]*int, n), make([]*dataflow.App, n)}
	for i := range n {
		c.in[i], c.completed[i], c.apps[i] = flow(work)
	}
	return c
}

// run makes n goroutines read a part each, waits until everything is done, and
// counts.
func (c *crew[P]) run(all []vote, read func(i int)) ratio.Run {
	return ratio.Run{Do: func() int {
		var wg sync.WaitGroup
		for i := range c.in {
			wg.Go(func() { read(i) })
		}
		wg.Wait()
		n := 0
		for i, app := range c.apps {
			stop(app) // returns when everything that was sent is done
			n += *c.completed[i]
		}
		check("requests", n, len(all)/replicas)
		return len(all)
	}}
}

func divided(all []vote, n, work int) ratio.Run {
	parts := make([][]vote, n)
	for _, v := range all {
		i := member(v.Request, n)
		parts[i] = append(parts[i], v)
	}
	alone := func(work int) (*dataflow.InputPort[vote], *int, *dataflow.App) { return newQuorum(work) }
	c := newCrew(n, work, alone)
	return c.run(all, func(i int) { send(c.in[i], parts[i], 256) })
}

func chosenBySender(all []vote, n, work int) ratio.Run {
	c := newCrew(n, work, newSharedQuorum)
	return c.run(all, func(i int) {
		exchange(all[len(all)*i/n:len(all)*(i+1)/n], n, func(to int, batch []vote) []vote {
			_, err := c.in[to].SendBatch(background, batch)
			must(err)
			return batch[:0]
		})
	})
}

// exchange divides votes over n builders of 256. It ships the full ones, and in the
// end the rest. Ship returns an empty builder.
func exchange(all []vote, n int, ship func(to int, batch []vote) []vote) {
	built := make([][]vote, n)
	for i := range built {
		built[i] = make([]vote, 0, 256)
	}
	for _, v := range all {
		to := member(v.Request, n)
		if built[to] = append(built[to], v); len(built[to]) == 256 {
			built[to] = ship(to, built[to])
		}
	}
	for to := range built {
		ship(to, built[to])
	}
}

func channelMembers(all []vote, n, work int) ratio.Run {
	return ratio.Run{Do: func() int {
		in := make([]chan []vote, n)
		free := make(chan []vote, 64*n)
		counts := make([]int, n)
		var readers, workers sync.WaitGroup
		for i := range n {
			in[i] = make(chan []vote, 8)
			workers.Go(func() {
				completes := newVoter(work)
				for batch := range in[i] {
					for _, v := range batch {
						if completes(v) {
							counts[i]++
						}
					}
					select {
					case free <- batch[:0]:
					default:
					}
				}
			})
		}
		for i := range n {
			readers.Go(func() {
				exchange(all[len(all)*i/n:len(all)*(i+1)/n], n, func(to int, batch []vote) []vote {
					in[to] <- batch
					select {
					case b := <-free:
						return b
					default:
						return make([]vote, 0, 256)
					}
				})
			})
		}
		readers.Wait()
		for i := range n {
			close(in[i])
		}
		workers.Wait()
		total := 0
		for _, n := range counts {
			total += n
		}
		check("requests", total, len(all)/replicas)
		return len(all)
	}}
}

// memberGrowth is Members with 1 to 8 members.
func memberGrowth() []Job {
	all := lazily(func() []vote { return votes(memberRequests, 1000) })
	var jobs []Job
	for _, n := range []int{1, 2, 4, 8} {
		jobs = append(jobs, Job{
			Name: "GrowthMembers", Params: fmt.Sprintf("members=%d", n), Plot: "members", X: float64(n), Rounds: 7,
			Impls: []ratio.Impl{
				{Name: "channels", New: func() ratio.Run { return channelMembers(all(), n, longWork) }},
				{Name: "millrace", New: func() ratio.Run { return exchanged(all(), n, longWork) }},
				{Name: "sender", New: func() ratio.Run { return chosenBySender(all(), n, longWork) }},
				{Name: "divided", New: func() ratio.Run { return divided(all(), n, longWork) }},
			},
		})
	}
	return jobs
}
