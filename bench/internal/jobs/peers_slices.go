package jobs

import (
	"context"
	"slices"

	"github.com/destel/rill"
	"github.com/reactivex/rxgo/v2"
	"github.com/reugn/go-streams/extension"
	"github.com/reugn/go-streams/flow"
	"github.com/samber/ro"

	"github.com/millrace/millrace/bench/internal/ratio"
)

// peerBatch is the number of elements that the peers receive at once where they can, which is the same
// for Millrace.
const peerBatch = 256

// chunks returns the batches of data, without copying.
func chunks[T any](data []T) [][]T { return slices.Collect(slices.Chunk(data, peerBatch)) }

// A sliceChain is the chain over slices: the first step fills a slice that the last one returns, and
// the steps in between change it in place.
type sliceChain struct {
	chain
	free chan []int
}

func newSliceChain(c chain) sliceChain { return sliceChain{c, make(chan []int, 2*pipe)} }

func (c sliceChain) scaleAll(xs []int) []int {
	var ys []int
	select {
	case ys = <-c.free:
	default:
		ys = make([]int, peerBatch)
	}
	ys = ys[:len(xs)]
	for i, x := range xs {
		ys[i] = c.scale(x)
	}
	return ys
}

func (c sliceChain) keepAll(xs []int) []int {
	n := 0
	for _, x := range xs {
		xs[n] = x
		if c.keep(x) {
			n++
		}
	}
	return xs[:n]
}

func (c sliceChain) mixAll(xs []int) []int {
	for i, x := range xs {
		xs[i] = c.mix(x)
	}
	return xs
}

func (c sliceChain) addAll(xs []int) {
	for _, x := range xs {
		c.add(x)
	}
	select {
	case c.free <- xs[:0]:
	default:
	}
}

// slicePeers are the implementations of the chain with slices.
func slicePeers(data []int) []ratio.Impl {
	run := func(name string, work func(c sliceChain)) ratio.Impl {
		return chainPeer(name, data, func(c chain) { work(newSliceChain(c)) })
	}
	return []ratio.Impl{
		run("channels", func(c sliceChain) {
			scaled, kept, mixed := make(chan []int, pipe), make(chan []int, pipe), make(chan []int, pipe)
			go func() {
				for xs := range slices.Chunk(data, peerBatch) {
					scaled <- c.scaleAll(xs)
				}
				close(scaled)
			}()
			go func() {
				for xs := range scaled {
					kept <- c.keepAll(xs)
				}
				close(kept)
			}()
			go func() {
				for xs := range kept {
					mixed <- c.mixAll(xs)
				}
				close(mixed)
			}()
			for xs := range mixed {
				c.addAll(xs)
			}
		}),
		run("samber/ro", func(c sliceChain) {
			ro.Pipe3(ro.FromSlice(chunks(data)), ro.Map(c.scaleAll), ro.Map(c.keepAll), ro.Map(c.mixAll)).Subscribe(ro.OnNext(c.addAll))
		}),
		run("rxgo", func(c sliceChain) {
			step := func(f func([]int) []int) rxgo.Func {
				return func(_ context.Context, xs any) (any, error) { return f(xs.([]int)), nil }
			}
			obs := rxgo.FromChannel(rxItems(chunks(data))).
				Map(step(c.scaleAll), rxgo.WithBufferedChannel(pipe)).
				Map(step(c.keepAll), rxgo.WithBufferedChannel(pipe)).
				Map(step(c.mixAll), rxgo.WithBufferedChannel(pipe))
			for item := range obs.Observe(rxgo.WithBufferedChannel(pipe)) {
				c.addAll(item.V.([]int))
			}
		}),
		run("rill", func(c sliceChain) {
			step := func(f func([]int) []int) func([]int) ([]int, error) {
				return func(xs []int) ([]int, error) { return f(xs), nil }
			}
			scaled := rill.Map(rill.FromSlice(chunks(data), nil), 1, step(c.scaleAll))
			mixed := rill.Map(rill.Map(scaled, 1, step(c.keepAll)), 1, step(c.mixAll))
			must(rill.ForEach(mixed, 1, func(xs []int) error { c.addAll(xs); return nil }))
		}),
		run("go-streams", func(c sliceChain) {
			out := make(chan any, pipe)
			go extension.NewChanSource(anyItems(chunks(data))).
				Via(flow.NewMap(c.scaleAll, 1)).
				Via(flow.NewMap(c.keepAll, 1)).
				Via(flow.NewMap(c.mixAll, 1)).
				To(extension.NewChanSink(out))
			for xs := range out {
				c.addAll(xs.([]int))
			}
		}),
	}
}

// sliceFilters are filters over slices: each passes on what it keeps in a new slice.
func sliceFilters[T any](data func() []T, newKeep func() func(T) bool, want int) []ratio.Impl {
	parts := lazily(func() [][]T { return chunks(data()) })
	impl := func(name string, work func(keep func([]T) []T, add func([]T))) ratio.Impl {
		return ratio.Impl{Name: name, New: func() ratio.Run {
			parts()
			keep := newKeep()
			all := func(xs []T) (kept []T) {
				for _, x := range xs {
					if keep(x) {
						kept = append(kept, x)
					}
				}
				return kept
			}
			return count(data, want, func(add func()) {
				work(all, func(xs []T) {
					for range xs {
						add()
					}
				})
			})
		}}
	}
	return []ratio.Impl{
		impl("channels", func(keep func([]T) []T, add func([]T)) {
			in, kept := make(chan []T, pipe), make(chan []T, pipe)
			go func() {
				for _, xs := range parts() {
					in <- xs
				}
				close(in)
			}()
			go func() {
				for xs := range in {
					kept <- keep(xs)
				}
				close(kept)
			}()
			for xs := range kept {
				add(xs)
			}
		}),
		impl("samber/ro", func(keep func([]T) []T, add func([]T)) {
			ro.Pipe1(ro.FromSlice(parts()), ro.Map(keep)).Subscribe(ro.OnNext(add))
		}),
		impl("rxgo", func(keep func([]T) []T, add func([]T)) {
			obs := rxgo.FromChannel(rxItems(parts())).
				Map(func(_ context.Context, xs any) (any, error) { return keep(xs.([]T)), nil }, rxgo.WithBufferedChannel(pipe))
			for item := range obs.Observe() {
				add(item.V.([]T))
			}
		}),
		impl("rill", func(keep func([]T) []T, add func([]T)) {
			kept := rill.Map(rill.FromSlice(parts(), nil), 1, func(xs []T) ([]T, error) { return keep(xs), nil })
			must(rill.ForEach(kept, 1, func(xs []T) error { add(xs); return nil }))
		}),
		impl("go-streams", func(keep func([]T) []T, add func([]T)) {
			out := make(chan any, pipe)
			go extension.NewChanSource(anyItems(parts())).Via(flow.NewMap(keep, 1)).To(extension.NewChanSink(out))
			for xs := range out {
				add(xs.([]T))
			}
		}),
	}
}
