package jobs

import (
	"fmt"
	"math/rand/v2"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

const lookups = 1_000_000

// Join looks up the elements of a slice of 256 in a snapshot of a table that may
// change. By hand, it looks them up in a map.
func Join() []Job {
	var jobs []Job
	for _, keys := range []int{1000, 100_000, 1_000_000} {
		job := Job{
			Name: "Join", Params: fmt.Sprintf("keys=%d/slice=256", keys), CPU: true,
			Impls: []ratio.Impl{
				{Name: "hand", New: func() ratio.Run { return handJoin(keys) }},
				{Name: "millrace", New: func() ratio.Run { return flowJoin(keys, asked(keys), 256, true) }},
			},
		}
		if keys > 1000 {
			// The batch of a slice is copied, hashed and looked up one by one. Seen:
			// 2.2.
			job.Targets = []Target{{AtMost: 1.2, Bound: 3.5}}
		}
		jobs = append(jobs, job)
	}
	return jobs
}

// Snapshot is the cost of a snapshot: a slice that looks up one element in it,
// always the same, compared with a slice without a snapshot.
func Snapshot() []Job {
	var jobs []Job
	for _, keys := range []int{1000, 100_000, 1_000_000} {
		same := make([]uint64, lookups/4)
		for i := range same {
			same[i] = golden
		}
		jobs = append(jobs, Job{
			Name: "Snapshot", Params: fmt.Sprintf("keys=%d", keys), CPU: true,
			Targets: []Target{{What: More, AtMost: 300}},
			Impls: []ratio.Impl{
				{Name: "without", New: func() ratio.Run { return flowJoin(keys, same, 1, false) }},
				{Name: "millrace", New: func() ratio.Run { return flowJoin(keys, same, 1, true) }},
			},
		})
	}
	return jobs
}

// golden spreads out keys: key i is i times golden.
const golden = 0x9e3779b97f4a7c15

func asked(keys int) []uint64 {
	r := rand.New(rand.NewPCG(5, 6))
	all := make([]uint64, lookups)
	for i := range all {
		all[i] = golden * r.Uint64N(uint64(keys))
	}
	return all
}

func handJoin(keys int) ratio.Run {
	prices := make(map[uint64]uint64)
	for i := range uint64(keys) {
		prices[golden*i] = i
	}
	requests := asked(keys)
	_, add := newAdder()
	return ratio.Run{Do: func() int {
		for _, k := range requests {
			if p, ok := prices[k]; ok {
				add(p)
			}
		}
		return len(requests)
	}}
}

//go:noinline
func newAdder() (*uint64, func(uint64)) {
	sum := new(uint64)
	return sum, func(x uint64) { *sum += x }
}

func flowJoin(keys int, requests []uint64, batch int, join bool) ratio.Run {
	const why = "a request is answered at the price of the moment"
	f := dataflow.New()
	at := dataflow.At[bench](f)
	in, asked := dataflow.Input[uint64](at, "requests")
	changes, changed := keyedstream.Input[uint64, uint64](at, "price changes")
	prices := keyedstream.Fold(changed, func() uint64 { return 0 }, func(p *uint64, now uint64) { *p = now })
	tick := slice.At(at)
	now := slice.BatchKeyed(tick, dataflow.KeyBy(asked, func(k uint64) uint64 { return k }), why)
	n := 0
	_, add := newAdder()
	if join {
		priced := keyedsingleton.JoinKeyedStream(slice.Passive(slice.SnapshotEntries(tick, prices, why)), now)
		keyedstream.Inspect(slice.EmitKeyed(priced), func(p dataflow.Pair[uint64, uint64]) { n++; add(p.First) })
	} else {
		keyedsingleton.Inspect(prices, func(uint64) {})
		keyedstream.Inspect(slice.EmitKeyed(now), func(k uint64) { n++; add(k) })
	}
	app := start(f)
	for i := range uint64(keys) {
		must(changes.Send(background, golden*i, i))
	}
	return ratio.Run{
		Do: func() int {
			send(in, requests, batch)
			check("answers", n, len(requests))
			return len(requests)
		},
		Close: func() { stop(app) },
	}
}
