package dataflow_test

import (
	"slices"
	"testing"

	"github.com/leanovate/gopter"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// TestWholeAgainstLoop compares operators that read or order whole streams with a plain loop.
func TestWholeAgainstLoop(t *testing.T) {
	t.Run("Sort", func(t *testing.T) {
		holds(t, inBatches(func(batches [][]int) *gopter.PropResult {
			flow := dataflow.New()
			at := dataflow.At[server](flow)
			in, s := dataflow.Input[int](at, "numbers")
			all := slices.Concat(batches...)
			var got, want []int
			note := func(x int) { got = append(got, x) }
			dataflow.ForEach(slice.Emit(dataflow.Sort(dataflow.WeakenOrder(slice.Batch(slice.At(at), s, why)))), note)
			dataflow.ForEach(dataflow.Sort(dataflow.Of(at, all...)), note)
			inSteps(flow, in, batches, func() {})
			for _, b := range append([][]int{all}, batches...) {
				want = append(want, slices.Sorted(slices.Values(b))...)
			}
			return asLoop(texts(got), texts(want))
		}))
	})
	t.Run("Chain", func(t *testing.T) {
		holds(t, inBatches(func(batches [][]int) *gopter.PropResult {
			flow := dataflow.New()
			at := dataflow.At[server](flow)
			in, s := dataflow.Input[int](at, "numbers")
			all := slices.Concat(batches...)
			var top, runs, constant, wantRuns []int
			// The end of the chain is built before its middle, and a chain that starts at a constant reads it.
			dataflow.ForEach(dataflow.Chain(dataflow.Of(at, -1), dataflow.Chain(dataflow.Of(at, all...), s)), func(x int) { top = append(top, x) })
			tick := slice.At(at)
			batch := slice.Batch(tick, s, why)
			dataflow.ForEach(slice.Emit(dataflow.Chain(dataflow.Sort(batch), dataflow.Chain(dataflow.Of(tick, 100), batch))), func(x int) { runs = append(runs, x) })
			dataflow.ForEach(dataflow.Chain(dataflow.Of(at, 7, 8), dataflow.Of(at, all...)), func(x int) { constant = append(constant, x) })
			count := singleton.Output(dataflow.Count(dataflow.Chain(dataflow.Of(at, 1, 2), s)), "count")
			inSteps(flow, in, batches, func() {})
			for _, b := range batches {
				if len(b) > 0 {
					wantRuns = slices.Concat(wantRuns, slices.Sorted(slices.Values(b)), []int{100}, b)
				}
			}
			want := slices.Concat([]int{-1}, all, all, wantRuns, []int{7, 8}, all, []int{len(all) + 2})
			n, _ := count.Latest()
			return asLoop(texts(slices.Concat(top, runs, constant, []int{n})), texts(want))
		}))
	})
	t.Run("MergeOrdered", func(t *testing.T) {
		holds(t, inBatches(func(batches [][]int) *gopter.PropResult {
			flow := dataflow.New()
			at := dataflow.At[server](flow)
			in, s := dataflow.Input[int](at, "numbers")
			var got []int
			negated := dataflow.Map(s, func(x int) int { return -1000 - x })
			dataflow.ForEach(dataflow.MergeOrdered(s, negated, why), func(x int) { got = append(got, x) })
			inSteps(flow, in, batches, func() {})
			all := slices.Concat(batches...)
			var left, right []int
			for _, x := range got {
				if x > -500 {
					left = append(left, x)
				} else {
					right = append(right, -1000-x)
				}
			}
			return asLoop(texts(slices.Concat(left, right)), texts(slices.Concat(all, all)))
		}))
	})
}
