package dataflow_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/leanovate/gopter"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// A valueOp is an operator that makes at most one value of a stream; see streamOp.
type valueOp struct {
	name     string
	top      func(intsOf[server, unbounded]) wordOf[server, unbounded]
	inside   func(intsOf[dataflow.Tick[server], bounded]) wordOf[dataflow.Tick[server], bounded]
	constant func(intsOf[server, bounded]) wordOf[server, bounded]
	want     func([]int) (string, bool)
}

func valueCase(name string,
	top func(intsOf[server, unbounded]) wordOf[server, unbounded],
	inside func(intsOf[dataflow.Tick[server], bounded]) wordOf[dataflow.Tick[server], bounded],
	constant func(intsOf[server, bounded]) wordOf[server, bounded],
	want func([]int) (string, bool),
) valueOp {
	return valueOp{name, top, inside, constant, want}
}

var valueCases = []valueOp{
	valueCase("Reduce", reduced, reduced, reduced, func(xs []int) (string, bool) {
		return strings.Join(texts(xs), ";"), len(xs) > 0
	}),
	valueCase("FoldGrowing", grown, grown, grown, func(xs []int) (string, bool) { return fmt.Sprint(len(xs)), true }),
	valueCase("FoldCommutative", commuted, commuted, commuted, func(xs []int) (string, bool) {
		all := 0
		for _, x := range xs {
			all ^= x
		}
		return fmt.Sprint(all), true
	}),
	valueCase("Sum", summed, summed, summed, func(xs []int) (string, bool) {
		sum := 0
		for _, x := range xs {
			sum += x
		}
		return fmt.Sprint(sum), true
	}),
	valueCase("Min", smallest, smallest, smallest, func(xs []int) (string, bool) {
		least := math.MaxInt
		for _, x := range xs {
			least = min(least, x)
		}
		return fmt.Sprint(least), len(xs) > 0
	}),
	valueCase("Max", largest, largest, largest, func(xs []int) (string, bool) {
		most := math.MinInt
		for _, x := range xs {
			most = max(most, x)
		}
		return fmt.Sprint(most), len(xs) > 0
	}),
}

// plain and aggregate constrain the result of an operator, and the result of mapping it to text.
type (
	plain[Out bounds.Stream] interface {
		bounds.Stream
		bounds.Altered[Out]
	}
	aggregate[Out bounds.Stream] interface {
		bounds.Aggregate
		bounds.Altered[Out]
	}
)

func text[T any, L dataflow.Location, B bounds.Altered[Out], Out bounds.Stream](x dataflow.Singleton[T, L, B]) wordOf[L, Out] {
	return singleton.FilterMap(x, func(x T) (string, bool) { return fmt.Sprint(x), true })
}

func reduced[L dataflow.Location, B plain[Out], Out bounds.Stream](s intsOf[L, B]) wordOf[L, Out] {
	return optional.Map(dataflow.Reduce(print(s), func(acc *string, x string) { *acc += ";" + x }), strings.Clone)
}

func grown[L dataflow.Location, B bounds.FoldedGrowing[Mid], Mid aggregate[Out], Out bounds.Stream](s intsOf[L, B]) wordOf[L, Out] {
	return text(dataflow.FoldGrowing(s, func() int { return 0 }, func(n *int, _ int) { *n++ }, "a count of elements only grows"))
}

func commuted[L dataflow.Location, B plain[Out], Out bounds.Stream](s intsOf[L, B]) wordOf[L, Out] {
	return text(dataflow.FoldCommutative(dataflow.WeakenOrder(s), func() int { return 0 }, func(acc *int, x int) { *acc ^= x }, "xor commutes"))
}

func summed[L dataflow.Location, B plain[Out], Out bounds.Stream](s intsOf[L, B]) wordOf[L, Out] {
	return text(dataflow.Sum(dataflow.WeakenOrder(s)))
}

func smallest[L dataflow.Location, B plain[Out], Out bounds.Stream](s intsOf[L, B]) wordOf[L, Out] {
	return optional.Map(dataflow.Min(dataflow.AssumeRepeats(dataflow.WeakenOrder(s))), strconv.Itoa)
}

func largest[L dataflow.Location, B bounds.FoldedGrowing[Mid], Mid aggregate[Out], Out bounds.Stream](s intsOf[L, B]) wordOf[L, Out] {
	return optional.Map(dataflow.Max(dataflow.AssumeRepeats(dataflow.WeakenOrder(s))), strconv.Itoa)
}

// TestValuesAgainstLoop is TestStreamsAgainstLoop for operators that make one value. At the top
// level it compares after each batch.
func TestValuesAgainstLoop(t *testing.T) {
	for _, op := range valueCases {
		t.Run(op.name, func(t *testing.T) {
			holds(t, inBatches(func(batches [][]int) *gopter.PropResult {
				flow := dataflow.New()
				at := dataflow.At[server](flow)
				in, s := dataflow.Input[int](at, "numbers")
				all := slices.Concat(batches...)
				var got, want []string
				expect := func(w string, ok bool) {
					if ok {
						want = append(want, w)
					}
				}
				value := optional.Output(op.top(s), "value")
				batch := slice.Batch(slice.At(at), s, why)
				runs := slice.Emit(optional.IntoStream(op.inside(batch)))
				dataflow.ForEach(runs, func(w string) { got = append(got, w) })
				dataflow.ForEach(optional.IntoStream(op.constant(dataflow.Of(at, all...))), func(w string) { got = append(got, w) })
				inSteps(flow, in, batches, func() {
					if w, ok := value.Latest(); ok {
						got = append(got, w)
					}
				})
				expect(op.want(all)) // the constant, at the start
				expect(op.want(nil)) // the value before the first element
				for i, b := range batches {
					if len(b) > 0 { // an empty batch does not run the slice
						expect(op.want(b))
					}
					expect(op.want(slices.Concat(batches[:i+1]...)))
				}
				return asLoop(got, want)
			}))
		})
	}
}
