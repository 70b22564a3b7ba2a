package jobs

import (
	"context"
	"fmt"
	"slices"

	"github.com/destel/rill"
	"github.com/reactivex/rxgo/v2"
	"github.com/reugn/go-streams/extension"
	"github.com/reugn/go-streams/flow"
	"github.com/samber/ro"

	"github.com/millrace/millrace/bench/internal/ratio"
)

const (
	peerVotes = 60_000 // requests, of five votes each
	peerKeys  = 400_000
	pipe      = 1024 // capacity of a channel between two goroutines
)

// Peers does three of the jobs with other libraries, and with a goroutine for each step. Where
// a library has no operator that remembers keys, its filter calls a closure over a map, as one
// would write it. Each implementation receives the same batches: slices of 256, which are
// passed from step to step, or one element at a time.
func Peers() []Job {
	var jobs []Job
	for _, batch := range []int{peerBatch, 1} {
		jobs = append(jobs, peerChain(batch), peerFirst(batch), peerQuorum(batch))
	}
	return jobs
}

// ahead requires that Millrace is faster than every other implementation by the given factor.
func ahead(times float64, impls []ratio.Impl) []Target {
	var ts []Target
	for _, impl := range impls {
		ts = append(ts, Target{To: impl.Name, AtMost: 1 / times})
	}
	return ts
}

// chainPeer is an implementation of the chain.
func chainPeer(name string, data []int, work func(c chain)) ratio.Impl {
	return ratio.Impl{Name: name, New: func() ratio.Run {
		c := newChain(7)
		return ratio.Run{Do: func() int {
			work(c)
			got := *c.sum
			*c.sum = 0
			c.hand(data)
			check("sum", got, *c.sum)
			return len(data)
		}}
	}}
}

func peerChain(batch int) Job {
	data := chainData(func(i int) int { return i })
	others := singlePeers(data)
	if batch > 1 {
		others = slicePeers(data)
	}
	return Job{
		Name: "Peers", Params: fmt.Sprintf("job=Chain/batch=%d", batch), Slow: true, Targets: ahead(1, others),
		Impls: slices.Concat([]ratio.Impl{
			{Name: "hand", New: func() ratio.Run { return handChain(newChain(7), data, nil) }},
			{Name: "millrace", New: func() ratio.Run { return flowChain(newChain(7), data, batch) }},
		}, others),
	}
}

// singlePeers are the implementations of the chain with one element at a time.
func singlePeers(data []int) []ratio.Impl {
	run := func(name string, work func(c chain)) ratio.Impl { return chainPeer(name, data, work) }
	return []ratio.Impl{
		run("channels", func(c chain) {
			scaled, kept, mixed := make(chan int, pipe), make(chan int, pipe), make(chan int, pipe)
			go func() {
				for _, x := range data {
					scaled <- c.scale(x)
				}
				close(scaled)
			}()
			go func() {
				for x := range scaled {
					if c.keep(x) {
						kept <- x
					}
				}
				close(kept)
			}()
			go func() {
				for x := range kept {
					mixed <- c.mix(x)
				}
				close(mixed)
			}()
			for x := range mixed {
				c.add(x)
			}
		}),
		run("samber/ro", func(c chain) {
			ro.Pipe3(ro.FromSlice(data), ro.Map(c.scale), ro.Filter(c.keep), ro.Map(c.mix)).Subscribe(ro.OnNext(c.add))
		}),
		run("rxgo", func(c chain) {
			obs := rxgo.FromChannel(rxItems(data)).
				Map(func(_ context.Context, x any) (any, error) { return c.scale(x.(int)), nil }, rxgo.WithBufferedChannel(pipe)).
				Filter(func(x any) bool { return c.keep(x.(int)) }, rxgo.WithBufferedChannel(pipe)).
				Map(func(_ context.Context, x any) (any, error) { return c.mix(x.(int)), nil }, rxgo.WithBufferedChannel(pipe))
			for item := range obs.Observe(rxgo.WithBufferedChannel(pipe)) {
				c.add(item.V.(int))
			}
		}),
		run("rill", func(c chain) {
			scaled := rill.Map(rill.FromSlice(data, nil), 1, func(x int) (int, error) { return c.scale(x), nil })
			kept := rill.Filter(scaled, 1, func(x int) (bool, error) { return c.keep(x), nil })
			mixed := rill.Map(kept, 1, func(x int) (int, error) { return c.mix(x), nil })
			must(rill.ForEach(mixed, 1, func(x int) error { c.add(x); return nil }))
		}),
		run("go-streams", func(c chain) {
			out := make(chan any, pipe)
			go extension.NewChanSource(anyItems(data)).
				Via(flow.NewMap(c.scale, 1)).
				Via(flow.NewFilter(c.keep, 1)).
				Via(flow.NewMap(c.mix, 1)).
				To(extension.NewChanSink(out))
			for x := range out {
				c.add(x.(int))
			}
		}),
	}
}

func peerFirst(batch int) Job {
	keys := lazily(func() []uint64 {
		some := makeKeys(100_000, wordKey)
		for len(some) < peerKeys {
			some = append(some, some...)
		}
		return some[:peerKeys]
	})
	newKeep := func() func(uint64) bool {
		seen := make(map[uint64]struct{})
		return func(k uint64) bool {
			if _, ok := seen[k]; ok {
				return false
			}
			seen[k] = struct{}{}
			return true
		}
	}
	others := filters(keys, newKeep, 100_000)
	if batch > 1 {
		others = sliceFilters(keys, newKeep, 100_000)
	}
	if batch == 1 {
		others = append(others, distinctPeers(keys)...)
	}
	return Job{
		Name: "Peers", Params: fmt.Sprintf("job=First/key=uint64/keys=%d/batch=%d", 100_000, batch), Slow: true, Targets: ahead(1, others),
		Impls: slices.Concat([]ratio.Impl{
			{Name: "hand", New: func() ratio.Run { return handFirst(keys(), 100_000) }},
			{Name: "millrace", New: func() ratio.Run { return sendFirst(keys(), 100_000, batch) }},
		}, others),
	}
}

// distinctPeers are the library operators that remember keys. They take single elements.
func distinctPeers(keys func() []uint64) []ratio.Impl {
	return []ratio.Impl{{Name: "samber/ro-DistinctBy", New: func() ratio.Run {
		return count(keys, 100_000, func(add func()) {
			same := func(k uint64) uint64 { return k }
			ro.Pipe1(ro.FromSlice(keys()), ro.DistinctBy(same)).Subscribe(ro.OnNext(func(uint64) { add() }))
		})
	}}, {Name: "rxgo-Distinct", New: func() ratio.Run {
		return count(keys, 100_000, func(add func()) {
			same := func(_ context.Context, k any) (any, error) { return k, nil }
			for range rxgo.FromChannel(rxItems(keys())).Distinct(same, rxgo.WithBufferedChannel(pipe)).Observe() {
				add()
			}
		})
	}}}
}

func peerQuorum(batch int) Job {
	all := lazily(func() []vote { return votes(peerVotes, 1000) })
	newKeep := func() func(vote) bool { return newVoter(0) }
	others := filters(all, newKeep, peerVotes)
	if batch > 1 {
		others = sliceFilters(all, newKeep, peerVotes)
	}
	return Job{
		Name: "Peers", Params: fmt.Sprintf("job=FoldEarlyStop/inflight=1000/batch=%d", batch), Slow: true, Targets: ahead(1, others),
		Impls: slices.Concat([]ratio.Impl{
			{Name: "hand", New: func() ratio.Run { return handQuorum(all(), peerVotes) }},
			{Name: "millrace", New: func() ratio.Run { return flowQuorum(all(), batch, peerVotes) }},
		}, others),
	}
}

// count runs a pipeline and checks the number of elements that it passes on.
func count[T any](data func() []T, want int, work func(add func())) ratio.Run {
	return ratio.Run{Do: func() int {
		n := 0
		work(func() { n++ })
		check("elements", n, want)
		return len(data())
	}}
}

// filters are implementations in which one filter remembers what it has seen.
func filters[T any](data func() []T, newKeep func() func(T) bool, want int) []ratio.Impl {
	impl := func(name string, work func(keep func(T) bool, add func())) ratio.Impl {
		return ratio.Impl{Name: name, New: func() ratio.Run {
			data()
			keep := newKeep()
			return count(data, want, func(add func()) { work(keep, add) })
		}}
	}
	return []ratio.Impl{
		impl("channels", func(keep func(T) bool, add func()) {
			in, kept := make(chan T, pipe), make(chan T, pipe)
			go func() {
				for _, x := range data() {
					in <- x
				}
				close(in)
			}()
			go func() {
				for x := range in {
					if keep(x) {
						kept <- x
					}
				}
				close(kept)
			}()
			for range kept {
				add()
			}
		}),
		impl("samber/ro", func(keep func(T) bool, add func()) {
			ro.Pipe1(ro.FromSlice(data()), ro.Filter(keep)).Subscribe(ro.OnNext(func(T) { add() }))
		}),
		impl("rxgo", func(keep func(T) bool, add func()) {
			obs := rxgo.FromChannel(rxItems(data())).Filter(func(x any) bool { return keep(x.(T)) }, rxgo.WithBufferedChannel(pipe))
			for range obs.Observe() {
				add()
			}
		}),
		impl("rill", func(keep func(T) bool, add func()) {
			kept := rill.Filter(rill.FromSlice(data(), nil), 1, func(x T) (bool, error) { return keep(x), nil })
			must(rill.ForEach(kept, 1, func(T) error { add(); return nil }))
		}),
		impl("go-streams", func(keep func(T) bool, add func()) {
			out := make(chan any, pipe)
			go extension.NewChanSource(anyItems(data())).Via(flow.NewFilter(keep, 1)).To(extension.NewChanSink(out))
			for range out {
				add()
			}
		}),
	}
}

func rxItems[T any](data []T) chan rxgo.Item {
	in := make(chan rxgo.Item, pipe)
	go func() {
		for _, x := range data {
			in <- rxgo.Of(x)
		}
		close(in)
	}()
	return in
}

func anyItems[T any](data []T) chan any {
	in := make(chan any, pipe)
	go func() {
		for _, x := range data {
			in <- x
		}
		close(in)
	}()
	return in
}
