package singleton_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"
	"github.com/leanovate/gopter/prop"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

var seed = flag.Int64("seed", 0, "seed of the random tests; 0 takes one from the clock")

const why = "tested"

// TestAgainstLoop compares thresholds and filters of a running value with a plain loop over
// its versions, for random splits of the input into steps. It also compares thresholds in a
// slice, where the value is that of the run, and on constants.
func TestAgainstLoop(t *testing.T) {
	s := *seed
	if s == 0 {
		s = time.Now().UnixNano()
	}
	params := gopter.DefaultTestParametersWithSeed(s)
	params.MinSuccessfulTests, params.MaxSize = 80, 40
	props := gopter.NewProperties(params)
	props.Property("as a loop", prop.ForAll(compare, gen.SliceOf(gen.IntRange(0, 9)), gen.SliceOf(gen.IntRange(0, 4)), gen.IntRange(-1, 60)))
	var report bytes.Buffer
	if !props.Run(gopter.NewFormatedReporter(false, 100, &report)) {
		t.Errorf("%s\nrerun: go test ./singleton -run '^TestAgainstLoop$' -seed %d", &report, s)
	}
}

func compare(xs, sizes []int, limit int) *gopter.PropResult {
	flow := dataflow.New()
	at := dataflow.At[dataflow.Here](flow)
	in, s := dataflow.Input[int](at, "numbers")
	zero := func() int { return 0 }
	add := func(sum *int, x int) { *sum += x }
	sum := dataflow.FoldGrowing(s, zero, add, "no number is negative")
	twice := singleton.MapGrowing(sum, func(n int) int { return 2 * n }, "twice keeps order")
	digit := func(n int) (string, bool) { return fmt.Sprint(n % 10), n%2 == 0 }

	var crossed, wantCrossed, runs, wantRuns, wantConstant []int
	dataflow.ForEach(singleton.Threshold(sum, limit), func(n int) { crossed = append(crossed, n) })
	dataflow.ForEach(singleton.Threshold(twice, limit), func(n int) { crossed = append(crossed, n) })
	even := optional.Output(singleton.Filter(sum, func(n int) bool { return n%2 == 0 }), "even")
	digits := optional.Output(singleton.FilterMap(sum, digit), "digits")

	batch := slice.Batch(slice.At(at), s, why)
	run := singleton.Threshold(dataflow.FoldGrowing(batch, zero, add, "no number is negative"), limit)
	dataflow.ForEach(slice.Emit(run), func(n int) { runs = append(runs, n) })

	var constant []int
	whole := dataflow.FoldGrowing(dataflow.Of(at, xs...), zero, add, "no number is negative")
	dataflow.ForEach(singleton.Threshold(whole, limit), func(n int) { constant = append(constant, n) })

	app, err := dataflow.Start(context.Background(), flow)
	if err != nil {
		panic(err)
	}
	var latest, wantLatest []string
	look := func(total int) {
		n, ok := even.Latest()
		d, isDigit := digits.Latest()
		latest = append(latest, fmt.Sprint(n, ok, d, isDigit))
		want := fmt.Sprint(0, false, "", false)
		if total%2 == 0 {
			want = fmt.Sprint(total, true, fmt.Sprint(total%10), true)
		}
		wantLatest = append(wantLatest, want)
	}
	look(0)
	total := 0
	for _, n := range append(sizes, len(xs)) {
		n = min(n, len(xs))
		if _, err := in.SendBatch(context.Background(), xs[:n]); err != nil {
			panic(err)
		}
		part := 0
		for _, x := range xs[:n] {
			part += x
		}
		if n > 0 && part >= limit {
			wantRuns = append(wantRuns, limit)
		}
		total += part
		look(total)
		xs = xs[n:]
	}
	in.Close()
	if err := app.Wait(); err != nil {
		panic(err)
	}
	if total >= limit {
		wantCrossed, wantConstant = append(wantCrossed, limit), append(wantConstant, limit)
	}
	if 2*total >= limit {
		wantCrossed = append(wantCrossed, limit)
	}
	if !slices.Equal(crossed, wantCrossed) || !slices.Equal(runs, wantRuns) || !slices.Equal(constant, wantConstant) || !slices.Equal(latest, wantLatest) {
		return gopter.NewPropResult(false, fmt.Sprintf("thresholds %v, want %v; in runs %v, want %v; of the constant %v, want %v; latest %v, want %v",
			crossed, wantCrossed, runs, wantRuns, constant, wantConstant, latest, wantLatest))
	}
	return gopter.NewPropResult(true, "")
}
