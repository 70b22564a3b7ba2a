package jobs

import (
	"fmt"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/dataflow"
)

// newSteps makes functions in a call that is not inlined, as newChain does.
//
//go:noinline
func newSteps(n int) []func(int) int {
	fs := make([]func(int) int, n)
	for i := range fs {
		k := 2*i + 1
		fs[i] = func(x int) int { return x*k + 1 }
	}
	return fs
}

// A total holds the sum of a chain of maps.
type total struct{ sum int }

// newTotal returns a total and the function that adds to it.
//
//go:noinline
func newTotal() (*total, func(int)) {
	t := new(total)
	return t, func(x int) { t.sum += x }
}

//go:noinline
func oneByHand(xs []int, f func(int) int, add func(int)) {
	for _, x := range xs {
		add(f(x))
	}
}

//go:noinline
func sixteenByHand(xs []int, f *[16]func(int) int, add func(int)) {
	for _, x := range xs {
		add(f[15](f[14](f[13](f[12](f[11](f[10](f[9](f[8](f[7](f[6](f[5](f[4](f[3](f[2](f[1](f[0](x)))))))))))))))))
	}
}

//go:noinline
func loopByHand(xs []int, fs []func(int) int, add func(int)) {
	for _, x := range xs {
		for _, f := range fs {
			x = f(x)
		}
		add(x)
	}
}

// Maps is one map and a sum, and sixteen maps and a sum, over ints. By hand, the
// functions are called by name; loop keeps them in a slice.
func Maps() []Job {
	data := chainData(func(i int) int { return i })
	var jobs []Job
	for _, n := range []int{1, 16} {
		for _, batch := range []int{256, 64} {
			jobs = append(jobs, Job{
				Name: "Maps", Params: fmt.Sprintf("maps=%d/batch=%d", n, batch), CPU: true,
				// Compared with a single call, an operator's own loop is expensive.
				// Seen: up to 1.8.
				Targets: []Target{{AtMost: 1, Bound: 2.5}, {To: "loop", AtMost: 1, Bound: 2.5}},
				Impls: []ratio.Impl{
					{Name: "hand", New: func() ratio.Run { return handMaps(data, n) }},
					{Name: "loop", New: func() ratio.Run { return loopMaps(data, n) }},
					{Name: "millrace", New: func() ratio.Run { return flowMaps(data, n, batch) }},
				},
			})
		}
	}
	return jobs
}

func handMaps(data []int, n int) ratio.Run {
	fs := newSteps(n)
	t, add := newTotal()
	work := func() { oneByHand(data, fs[0], add) }
	if n == 16 {
		work = func() { sixteenByHand(data, (*[16]func(int) int)(fs), add) }
	}
	return mapsRun(data, n, 1, t, work, nil)
}

func loopMaps(data []int, n int) ratio.Run {
	fs := newSteps(n)
	t, add := newTotal()
	return mapsRun(data, n, 1, t, func() { loopByHand(data, fs, add) }, nil)
}

func flowMaps(data []int, n, batch int) ratio.Run {
	f := dataflow.New()
	in, xs := dataflow.Input[int](dataflow.At[bench](f), "ints")
	for _, step := range newSteps(n) {
		xs = dataflow.Map(xs, step)
	}
	t, add := newTotal()
	dataflow.ForEach(xs, add)
	app := start(f)
	return mapsRun(data, n, 1, t, func() { send(in, data, batch) }, func() { stop(app) })
}

// mapsRun does the work several times, fewer times for a larger share, and checks the
// sum.
func mapsRun(data []int, n, share int, t *total, work, done func()) ratio.Run {
	rounds := max(1, chainBlocks/share)
	return ratio.Run{
		Do: func() int {
			for range rounds {
				work()
			}
			got := t.sum
			want, add := newTotal()
			loopByHand(data, newSteps(n), add)
			check("sum", got, rounds*want.sum)
			return rounds * len(data)
		},
		Close: done,
	}
}
