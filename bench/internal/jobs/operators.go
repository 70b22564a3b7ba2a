package jobs

import (
	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
)

const (
	manyOperators = 1000
	throughMany   = 3000 // elements
)

// Operators is a chain of a thousand keyed maps, through which elements pass one at a time. A figure
// is that of one element at one operator. By hand, the functions are called from a slice.
func Operators() []Job {
	data := chainData(func(i int) int { return i })[:throughMany]
	return []Job{{
		Name: "Operators", Params: "job=keyed-map/operators=1000/batch=1", CPU: true,
		Targets: []Target{{What: More, AtMost: 4, Bound: 60}},
		Impls: []ratio.Impl{
			{Name: "loop", New: func() ratio.Run {
				t, add := newTotal()
				fs := newSteps(manyOperators)
				return many(data, t, func() { loopByHand(data, fs, add) }, nil)
			}},
			{Name: "millrace", New: func() ratio.Run {
				f := dataflow.New()
				in, xs := dataflow.Input[int](dataflow.At[bench](f), "ints")
				ks := dataflow.KeyBy(xs, func(x int) int { return x & 63 })
				for _, step := range newSteps(manyOperators) {
					ks = keyedstream.Map(ks, step)
				}
				t, add := newTotal()
				keyedstream.Inspect(ks, add)
				app := start(f)
				return many(data, t, func() { send(in, data, 1) }, func() { stop(app) })
			}},
		},
	}}
}

// many does the work and checks the sum.
func many(data []int, t *total, work, done func()) ratio.Run {
	return ratio.Run{
		Do: func() int {
			work()
			got := t.sum
			want, add := newTotal()
			loopByHand(data, newSteps(manyOperators), add)
			check("sum", got, want.sum)
			return len(data) * manyOperators
		},
		Close: done,
	}
}
