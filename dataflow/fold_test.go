package dataflow_test

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/slice"
)

type counted = dataflow.Stream[int, counter, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]

func twice(n counted) counted {
	return dataflow.Map(dataflow.Map(n, func(i int) int { return i }), func(i int) int { return 2 * i })
}

func onlyPositive(n counted) counted {
	only := dataflow.Filter(n, func(i int) bool { return i > 0 })
	return dataflow.Map(dataflow.Named("only", only), func(i int) int { return i })
}

// asMany makes n operators through calls of twice.
func asMany(n int, of counted) counted {
	for range n / 2 {
		of = twice(of)
	}
	return of
}

// merges makes 2n operators, none of which forms a stretch with another.
func merges(n int, of counted) counted {
	for range n {
		of = dataflow.Merge(of, dataflow.Map(of, func(i int) int { return i }))
	}
	return of
}

// labels returns the labels of the boxes in a drawing.
func labels(svg string) (all []string) {
	for part := range strings.SplitSeq(svg, `<text x="10" y="16">`) {
		if label, _, ok := strings.Cut(part, "</text>"); ok && !strings.HasPrefix(part, "<svg") {
			all = append(all, label)
		}
	}
	return all
}

func TestFoldCalls(t *testing.T) {
	input := func(f *dataflow.Flow) counted {
		_, in := dataflow.Input[int](dataflow.At[counter](f), "in")
		return dataflow.WeakenOrder(in)
	}
	tests := map[string]struct {
		build func(f *dataflow.Flow)
		want  string
	}{
		"two calls of one function": {func(f *dataflow.Flow) {
			in := input(f)
			a := twice(in)
			b := twice(in)
			dataflow.Output(dataflow.Merge(a, b), "out")
		}, "in, twice, twice, Merge, out"},
		"a named operator inside of a call": {func(f *dataflow.Flow) {
			in := input(f)
			dataflow.Output(onlyPositive(twice(in)), "out")
		}, "in, twice, only, Map, out"},
		"a function without a name": {func(f *dataflow.Flow) {
			in := input(f)
			out := func() counted {
				return dataflow.Map(dataflow.Filter(in, func(int) bool { return true }), func(i int) int { return i })
			}()
			dataflow.Output(out, "out")
		}, "in, fold_test.go, out"},
		"a call that builds many": {func(f *dataflow.Flow) {
			dataflow.Output(asMany(26, input(f)), "out")
		}, "in, twice, out"},
		"a call that builds many without a call": {func(f *dataflow.Flow) {
			dataflow.Output(merges(13, input(f)), "out")
		}, "in, merges, out"},
		"a call that builds not too many": {func(f *dataflow.Flow) {
			dataflow.Output(asMany(24, input(f)), "out")
		}, "in, asMany, out"},
		"a call inside and outside of a slice": {func(f *dataflow.Flow) {
			in := input(f)
			func() {
				tick := slice.At(dataflow.At[counter](f))
				batch := dataflow.Map(dataflow.Map(slice.Batch(tick, in, "any batch"), func(i int) int { return i }), func(i int) int { return i })
				dataflow.Output(dataflow.Map(dataflow.Map(slice.Emit(batch), func(i int) int { return i }), func(i int) int { return i }), "out")
			}()
		}, "in, fold_test.go, fold_test.go, out"},
		"nothing": {func(*dataflow.Flow) {}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := dataflow.New()
			test.build(f)
			g := f.Graph()
			for i := range g.Operators {
				g.Operators[i].Pos, _, _ = strings.Cut(g.Operators[i].Pos, ":")
				for j := range g.Operators[i].Stack {
					if g.Operators[i].Stack[j].Func == "" || !strings.Contains(g.Operators[i].Stack[j].Pos, ".go:") {
						t.Errorf("operator %d was made by %+v", i, g.Operators[i].Stack)
					}
				}
			}
			got := labels(g.Draw(dataflow.Drawing{Fold: dataflow.FoldCalls}))
			for i := range got {
				if place, _, ok := strings.Cut(got[i], ":"); ok {
					got[i] = place
				}
			}
			if got := strings.Join(got, ", "); got != test.want {
				t.Errorf("the boxes are\n%s, want\n%s", got, test.want)
			}
			if n := g.Boxes(dataflow.FoldCalls); n != len(got) {
				t.Errorf("there are %d boxes, and %d are said", len(got), n)
			}
			if n := g.Boxes(dataflow.FoldNothing); n != len(g.Operators) {
				t.Errorf("there are %d boxes without folding, want one for each of %d operators", n, len(g.Operators))
			}
		})
	}
}

// TestFoldedCycle checks that a folded box that leads back to itself through others is drawn with
// one dashed edge.
func TestFoldedCycle(t *testing.T) {
	f := dataflow.New()
	_, in := dataflow.Input[int](dataflow.At[counter](f), "in")
	between := func(n counted) counted {
		return dataflow.Named("between", dataflow.Map(n, func(i int) int { return i }))
	}
	around := func() counted {
		return dataflow.Map(between(dataflow.Map(dataflow.WeakenOrder(in), func(i int) int { return i })), func(i int) int { return i })
	}
	dataflow.Output(around(), "out")
	svg := f.Graph().Draw(dataflow.Drawing{Fold: dataflow.FoldCalls})
	if n := strings.Count(svg, `class="back"`); n != 1 {
		t.Errorf("%d lines lead back, want 1:\n%s", n, svg)
	}
}

// TestNoStacksInSimulations checks that a simulation, which builds a flow for each schedule,
// records no stacks.
func TestNoStacksInSimulations(t *testing.T) {
	sim.Exhaustive(t, func(s *sim.Sim) {
		_, in := dataflow.Input[int](dataflow.At[counter](s.Flow()), "in")
		dataflow.Output(twice(dataflow.WeakenOrder(in)), "out")
		for _, o := range s.Flow().Graph().Operators {
			if len(o.Stack) > 0 {
				t.Errorf("%s has the stack %v", o.Name, o.Stack)
			}
		}
	})
}

func TestFolding(t *testing.T) {
	f := dataflow.New()
	_, in := dataflow.Input[int](dataflow.At[counter](f), "in")
	dataflow.Output(dataflow.WeakenOrder(in), "out")
	if by := f.Graph().Folding(); by != dataflow.FoldStretches {
		t.Errorf("an input and an output are folded as %d, want %d", by, dataflow.FoldStretches)
	}
	f = dataflow.New()
	_, in = dataflow.Input[int](dataflow.At[counter](f), "in")
	dataflow.Output(asMany(24, dataflow.WeakenOrder(in)), "out")
	if by := f.Graph().Folding(); by != dataflow.FoldStretches { // one box either way
		t.Errorf("a stretch in one call is folded as %d, want %d", by, dataflow.FoldStretches)
	}
	f = dataflow.New()
	_, in = dataflow.Input[int](dataflow.At[counter](f), "in")
	dataflow.Output(merges(3, dataflow.WeakenOrder(in)), "out")
	if by := f.Graph().Folding(); by != dataflow.FoldCalls {
		t.Errorf("three merges in one call are folded as %d, want %d", by, dataflow.FoldCalls)
	}
}
