package dataflow_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"
	"github.com/leanovate/gopter/prop"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/slice"
)

var seed = flag.Int64("seed", 0, "seed of the random tests; 0 takes one from the clock")

type (
	intsOf[L dataflow.Location, B bounds.Stream]  = dataflow.Stream[int, L, B, dataflow.TotalOrder, dataflow.ExactlyOnce]
	wordsOf[L dataflow.Location, B bounds.Stream] = dataflow.Stream[string, L, B, dataflow.TotalOrder, dataflow.ExactlyOnce]
	wordOf[L dataflow.Location, B bounds.Stream]  = dataflow.Optional[string, L, B]
)

// holds checks a property with a seed, and prints how to rerun a failure.
func holds(t *testing.T, law gopter.Prop) {
	t.Helper()
	s := *seed
	if s == 0 {
		s = time.Now().UnixNano()
	}
	params := gopter.DefaultTestParametersWithSeed(s)
	params.MinSuccessfulTests = 40
	params.MaxSize = 60
	props := gopter.NewProperties(params)
	props.Property(t.Name(), law)
	var report bytes.Buffer
	if !props.Run(gopter.NewFormatedReporter(false, 100, &report)) {
		t.Errorf("%s\nrerun: go test ./dataflow -run '^%s$' -seed %d", &report, strings.Split(t.Name(), "/")[0], s)
	}
}

// elements are small numbers with repeats. times says how often they are repeated as a whole. sizes
// are the sizes of the batches, some of them empty; the remaining elements form one batch. With a
// large times, that batch is longer than the chunk that an operator pushes at once.
var (
	elements = gen.SliceOf(gen.IntRange(-3, 9))
	sizes    = gen.SliceOf(gen.IntRange(0, 9))
	times    = gen.OneConstOf(1, 1, 1, 40)
)

// inBatches returns a property of batches of numbers.
func inBatches(law func(batches [][]int) *gopter.PropResult) gopter.Prop {
	return prop.ForAll(func(elements, sizes []int, times int) *gopter.PropResult {
		var batches [][]int
		left := slices.Repeat(elements, times)
		for _, n := range sizes {
			n = min(n, len(left))
			batches, left = append(batches, left[:n]), left[n:]
		}
		return law(append(batches, left))
	}, elements, sizes, times)
}

// asLoop compares the result of a flow with that of a plain loop.
func asLoop(got, want []string) *gopter.PropResult {
	if slices.Equal(got, want) {
		return gopter.NewPropResult(true, "")
	}
	return gopter.NewPropResult(false, fmt.Sprintf("got %.200q, want %.200q", got, want))
}

// inSteps starts a flow and sends it batches. It calls look at the start and after each batch. The
// location is idle, so each batch is one step.
func inSteps[T any](flow *dataflow.Flow, in *dataflow.InputPort[T], batches [][]T, look func()) {
	app, err := dataflow.Start(context.Background(), flow)
	if err != nil {
		panic(err)
	}
	look()
	for _, b := range batches {
		if _, err := in.SendBatch(context.Background(), b); err != nil {
			panic(err)
		}
		look()
	}
	in.Close()
	if err := app.Wait(); err != nil {
		panic(err)
	}
}

// A streamOp is an operator on a stream of numbers, applied at the top level, in a slice and to a
// constant, and a plain loop that does the same.
type streamOp struct {
	name     string
	top      func(intsOf[server, unbounded]) wordsOf[server, unbounded]
	inside   func(intsOf[dataflow.Tick[server], bounded]) wordsOf[dataflow.Tick[server], bounded]
	constant func(intsOf[server, bounded]) wordsOf[server, bounded]
	want     func([]int) []string
}

// streamCase returns a streamOp. The compiler infers the three instances of one function from the arguments.
func streamCase(name string,
	top func(intsOf[server, unbounded]) wordsOf[server, unbounded],
	inside func(intsOf[dataflow.Tick[server], bounded]) wordsOf[dataflow.Tick[server], bounded],
	constant func(intsOf[server, bounded]) wordsOf[server, bounded],
	want func([]int) []string,
) streamOp {
	return streamOp{name, top, inside, constant, want}
}

var streamCases = []streamOp{
	streamCase("Scan", scanned, scanned, scanned, func(xs []int) (out []string) {
		sum := 100
		for _, x := range xs {
			for range max(x, 0) % 3 {
				out = append(out, fmt.Sprint(sum))
			}
			sum += x
		}
		return out
	}),
	streamCase("Enumerate", enumerated, enumerated, enumerated, func(xs []int) (out []string) {
		for i, x := range xs {
			out = append(out, fmt.Sprintf("(%d, %d)", i, x))
		}
		return out
	}),
	streamCase("Limit", limited, limited, limited, func(xs []int) []string { return texts(xs[:min(len(xs), 7)]) }),
	streamCase("Limit to nothing", limitedTo0, limitedTo0, limitedTo0, func([]int) []string { return nil }),
	streamCase("Unique", distinct, distinct, distinct, func(xs []int) []string {
		seen := make(map[int]bool)
		return texts(slices.DeleteFunc(slices.Clone(xs), func(x int) bool {
			again := seen[x]
			seen[x] = true
			return again
		}))
	}),
	streamCase("Partition, yes", multiples, multiples, multiples, func(xs []int) []string {
		return texts(slices.DeleteFunc(slices.Clone(xs), func(x int) bool { return x%3 != 0 }))
	}),
	streamCase("Partition, no", others, others, others, func(xs []int) []string {
		return texts(slices.DeleteFunc(slices.Clone(xs), func(x int) bool { return x%3 == 0 }))
	}),
	streamCase("TryMap, values", halves, halves, halves, func(xs []int) (out []string) {
		for _, x := range xs {
			if x%2 == 0 {
				out = append(out, fmt.Sprint(x/2))
			}
		}
		return out
	}),
	streamCase("TryMap, failures", odds, odds, odds, func(xs []int) (out []string) {
		for _, x := range xs {
			if x%2 != 0 {
				out = append(out, fmt.Sprint(x, ": odd"))
			}
		}
		return out
	}),
}

func texts(xs []int) (out []string) {
	for _, x := range xs {
		out = append(out, fmt.Sprint(x))
	}
	return out
}

func print[T any, L dataflow.Location, B bounds.Stream](s dataflow.Stream[T, L, B, dataflow.TotalOrder, dataflow.ExactlyOnce]) wordsOf[L, B] {
	return dataflow.Map(s, func(x T) string { return fmt.Sprint(x) })
}

func scanned[L dataflow.Location, B bounds.Stream](s intsOf[L, B]) wordsOf[L, B] {
	return print(dataflow.Scan(s, func() int { return 100 }, func(sum *int, x int, emit func(int)) {
		for range max(x, 0) % 3 {
			emit(*sum)
		}
		*sum += x
	}))
}

func enumerated[L dataflow.Location, B bounds.Stream](s intsOf[L, B]) wordsOf[L, B] {
	return print(dataflow.Enumerate(s))
}

func limited[L dataflow.Location, B bounds.Stream](s intsOf[L, B]) wordsOf[L, B] {
	return print(dataflow.Limit(s, 7))
}

func limitedTo0[L dataflow.Location, B bounds.Stream](s intsOf[L, B]) wordsOf[L, B] {
	return print(dataflow.Limit(s, 0))
}

func distinct[L dataflow.Location, B bounds.Stream](s intsOf[L, B]) wordsOf[L, B] {
	return print(dataflow.Unique(dataflow.AssumeRepeats(s)))
}

func multiples[L dataflow.Location, B bounds.Stream](s intsOf[L, B]) wordsOf[L, B] {
	yes, _ := dataflow.Partition(s, func(x int) bool { return x%3 == 0 })
	return print(yes)
}

func others[L dataflow.Location, B bounds.Stream](s intsOf[L, B]) wordsOf[L, B] {
	_, no := dataflow.Partition(s, func(x int) bool { return x%3 == 0 })
	return print(no)
}

func half(x int) (int, error) {
	if x%2 != 0 {
		return 0, errors.New("odd")
	}
	return x / 2, nil
}

func halves[L dataflow.Location, B bounds.Stream](s intsOf[L, B]) wordsOf[L, B] {
	values, _ := dataflow.TryMap(s, half)
	return print(values)
}

func odds[L dataflow.Location, B bounds.Stream](s intsOf[L, B]) wordsOf[L, B] {
	_, failures := dataflow.TryMap(s, half)
	return print(failures)
}

// TestStreamsAgainstLoop compares each operator with a plain loop: at the top level with the input
// split into any batches, in a slice run by run, and on a constant. It catches a wrong operator,
// and one that loses its state or keeps it too long.
func TestStreamsAgainstLoop(t *testing.T) {
	for _, op := range streamCases {
		t.Run(op.name, func(t *testing.T) {
			holds(t, inBatches(func(batches [][]int) *gopter.PropResult {
				flow := dataflow.New()
				at := dataflow.At[server](flow)
				in, s := dataflow.Input[int](at, "numbers")
				all := slices.Concat(batches...)
				var top, runs, constant, wantRuns []string
				dataflow.ForEach(op.top(s), func(w string) { top = append(top, w) })
				batch := slice.Batch(slice.At(at), s, why)
				dataflow.ForEach(slice.Emit(op.inside(batch)), func(w string) { runs = append(runs, w) })
				dataflow.ForEach(op.constant(dataflow.Of(at, all...)), func(w string) { constant = append(constant, w) })
				inSteps(flow, in, batches, func() {})
				for _, b := range batches {
					wantRuns = append(wantRuns, op.want(b)...)
				}
				want := op.want(all)
				return asLoop(slices.Concat(top, runs, constant), slices.Concat(want, wantRuns, want))
			}))
		})
	}
}
