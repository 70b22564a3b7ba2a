package jobs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/dataflow"
)

const (
	chainBlock  = 131_072 // ints, 1 MiB: too many for a processor to learn which ones are kept
	chainBlocks = 10      // 1.3M elements per sample, more than 10M in nine rounds

	fromIterator = 0 // instead of the size of a batch: SendSeq
)

// A chain is the user's part of map → filter → map → sum.
type chain struct {
	scale func(int) int
	keep  func(int) bool
	mix   func(int) int
	add   func(int)
	sum   *int // of the values passed to add
}

// newChain makes the functions in a call that is not inlined, as a library sees them: a
// compiler that sees their bodies would inline them.
//
//go:noinline
func newChain(mask int) chain {
	k, x, sum := 3, 0x55, 0
	return chain{
		scale: func(i int) int { return i*k + 1 },
		keep:  func(i int) bool { return i&mask != 0 },
		mix:   func(i int) int { return i ^ x },
		add:   func(i int) { sum += i },
		sum:   &sum,
	}
}

//go:noinline
func (c chain) hand(xs []int) {
	for _, x := range xs {
		y := c.scale(x)
		if c.keep(y) {
			c.add(c.mix(y))
		}
	}
}

func chainData(at func(i int) int) []int {
	data := make([]int, chainBlock)
	for i := range data {
		data[i] = at(i)
	}
	return data
}

func randomInts() []int {
	r := rand.New(rand.NewPCG(1, 2))
	return chainData(func(int) int { return int(r.Uint64() >> 1) })
}

// Chain is map → filter → map → sum over ints: predictable ones, of which 7 in 8 are kept,
// and random ones, of which half are kept.
func Chain() []Job {
	predictable, random := chainData(func(i int) int { return i }), randomInts()
	var jobs []Job
	for _, d := range []struct {
		name   string
		data   []int
		mask   int
		target float64
	}{
		{"predictable", predictable, 7, 1.3},
		{"random", random, 1 << 20, .65},
	} {
		for _, batch := range []int{1024, 256, 64, 1} {
			job := Job{
				Name: "Chain", Params: fmt.Sprintf("data=%s/batch=%d", d.name, batch), CPU: true,
				Targets: []Target{{AtMost: d.target}},
				Impls: []ratio.Impl{
					{Name: "hand", New: func() ratio.Run { return handChain(newChain(d.mask), d.data, nil) }},
					{Name: "inlined", New: func() ratio.Run { return inlinedChain(newChain(d.mask), d.data, d.mask) }},
					{Name: "millrace", New: func() ratio.Run { return flowChain(newChain(d.mask), d.data, batch) }},
				},
			}
			if batch == 1 {
				// A step has a guard, and calls where the loop has none. Seen: 3.5, 3.4 and 2.2.
				job.Targets = []Target{{AtMost: 2.5, Bound: 6}, {To: "mutex", AtMost: 1, Bound: 7}, {Of: "millrace-seq", AtMost: 1.5, Bound: 4}}
				job.Impls = append(job.Impls,
					ratio.Impl{Name: "mutex", New: func() ratio.Run { return handChain(newChain(d.mask), d.data, new(sync.Mutex)) }},
					ratio.Impl{Name: "millrace-seq", New: func() ratio.Run { return flowChain(newChain(d.mask), d.data, fromIterator) }})
			}
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// handChain is the loop by hand. With a mutex, it takes each element under it, as a program must that
// takes elements from several goroutines.
func handChain(c chain, data []int, mu *sync.Mutex) ratio.Run {
	return ratio.Run{Do: func() int {
		for range chainBlocks {
			if mu != nil {
				c.guarded(mu, data)
			} else {
				c.hand(data)
			}
		}
		return c.done(data)
	}}
}

//go:noinline
func (c chain) guarded(mu *sync.Mutex, xs []int) {
	for _, x := range xs {
		mu.Lock()
		y := c.scale(x)
		if c.keep(y) {
			c.add(c.mix(y))
		}
		mu.Unlock()
	}
}

// inlinedChain is the loop with the functions inlined by the compiler.
func inlinedChain(c chain, data []int, mask int) ratio.Run {
	k, x := 3, 0x55
	return ratio.Run{Do: func() int {
		for range chainBlocks {
			*c.sum += inlined(data, k, x, mask)
		}
		return c.done(data)
	}}
}

//go:noinline
func inlined(xs []int, k, x, mask int) (sum int) {
	for _, v := range xs {
		if y := v*k + 1; y&mask != 0 {
			sum += y ^ x
		}
	}
	return sum
}

func flowChain(c chain, data []int, batch int) ratio.Run {
	f := dataflow.New()
	in, xs := dataflow.Input[int](dataflow.At[bench](f), "ints")
	dataflow.ForEach(dataflow.Map(dataflow.Filter(dataflow.Map(xs, c.scale), c.keep), c.mix), c.add)
	app := start(f)
	return ratio.Run{
		Do: func() int {
			for range chainBlocks {
				if batch == fromIterator {
					_, err := in.SendSeq(background, slices.Values(data))
					must(err)
				} else {
					send(in, data, batch)
				}
			}
			return c.done(data)
		},
		Close: func() { stop(app) },
	}
}

// done checks the sum and returns the number of elements.
func (c chain) done(data []int) int {
	got := *c.sum
	*c.sum = 0
	c.hand(data)
	check("sum", got, chainBlocks**c.sum)
	return chainBlocks * chainBlock
}
