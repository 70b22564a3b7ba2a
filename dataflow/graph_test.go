package dataflow_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

var update = flag.Bool("update", false, "rewrite golden files")

// These are the locations of the flows below.
type (
	counter struct{ dataflow.Process }
	market  struct{ dataflow.Process }
	till    struct{ dataflow.Process }
)

func wordCount() *dataflow.Flow {
	flow := dataflow.New()
	_, lines := dataflow.Input[string](dataflow.At[counter](flow), "lines")
	words := dataflow.FlatMap(lines, func(line string, emit func(string)) {
		for w := range strings.FieldsSeq(line) {
			emit(w)
		}
	})
	counts := keyedstream.Count(dataflow.KeyBy(words, strings.ToLower))
	keyedsingleton.Output(keyedsingleton.ThresholdUniform(counts, 10), "frequent")
	singleton.Output(keyedsingleton.KeyCount(counts), "different")
	return flow
}

func quotes() *dataflow.Flow {
	flow := dataflow.New()
	at := dataflow.At[market](flow)
	_, prices := dataflow.Input[int](at, "prices")
	_, orders := keyedsingleton.Input[string, int](at, "orders")
	price := dataflow.Fold(prices, func() int { return 10 }, func(now *int, p int) { *now = p })
	tick := slice.At(at)
	fresh := slice.BatchEntries(tick, orders, "each order is quoted alone, once")
	now := slice.Passive(slice.Snapshot(tick, price, `the "price" of <now> & here`))
	priced := keyedsingleton.CrossSingleton(fresh, now)
	quoted := keyedsingleton.Map(priced, func(p dataflow.Pair[int, int]) int { return p.First * p.Second })
	keyedsingleton.Output(slice.EmitEntries(quoted), "quotes")
	return flow
}

func runningTotal() *dataflow.Flow {
	flow := dataflow.New()
	_, numbers := dataflow.Input[int](dataflow.At[counter](flow), "numbers")
	tick := slice.At(dataflow.At[counter](flow))
	sum := dataflow.Sum(slice.Batch(tick, numbers, "sums of batches add up to the same total"))
	before, keep := slice.State(tick, 0)
	highest, keepHighest := slice.State(tick, 0)
	after := singleton.Map(singleton.Zip(before, sum), func(p dataflow.Pair[int, int]) int { return p.First + p.Second })
	keepHighest(singleton.Map(singleton.Zip(highest, after), func(p dataflow.Pair[int, int]) int { return max(p.First, p.Second) }))
	keep(after)
	dataflow.Output(slice.Emit(singleton.IntoStream(after)), "totals")
	return flow
}

func twoLocations() *dataflow.Flow {
	flow := dataflow.New()
	_, prices := dataflow.Input[int](dataflow.At[market](flow), "prices")
	_, sales := keyedstream.Input[string, int](dataflow.At[till](flow), "sales")
	dataflow.Output(dataflow.Filter(prices, func(p int) bool { return p > 0 }), `valid "prices" #1 \ <2> & more`)
	singleton.Output(keyedsingleton.IntoSingleton(keyedstream.Sum(sales)), "takings")
	loop, again := dataflow.Cycle[int, dataflow.NoOrder](dataflow.At[market](flow), "again")
	loop.Complete(slice.Emit(slice.Batch(slice.At(dataflow.At[market](flow)), again, "each is offered alone")))
	return flow
}

// roundTrip sends orders to another location, which is declared first, and sends the
// results back.
func roundTrip() *dataflow.Flow {
	flow := dataflow.New()
	there, here := dataflow.At[market](flow), dataflow.At[till](flow)
	_, orders := keyedsingleton.Input[string, int](here, "orders")
	filled := keyedsingleton.Map(keyedsingleton.Send(orders, there), itself)
	keyedsingleton.Output(keyedsingleton.Send(filled, here), "filled")
	for _, part := range keyedstream.Divide(keyedsingleton.IntoKeyedStream(filled), dataflow.Members[drawer](flow, 2)) {
		singleton.Output(keyedsingleton.KeyCount(keyedstream.Count(part)), "filled here")
	}
	return flow
}

func protocol() *dataflow.Flow {
	dispatch := func(context.Context, *agentproto.Call) agentproto.DispatchOutcome {
		return agentproto.DispatchOutcome{Accepted: true}
	}
	return agentproto.NewProgram(agentproto.ProgramOptions{Dispatch: dispatch}).Flow()
}

// TestGraph compares drawings of flows with golden files, which are for people: paste one
// into a viewer. Run go test -run TestGraph -update to rewrite them. Line numbers are
// masked, because most changes of a program move them.
func TestGraph(t *testing.T) {
	line := regexp.MustCompile(`\b(\w+\.go):\d+`)
	for name, build := range map[string]func() *dataflow.Flow{
		"wordcount": wordCount,
		"quotes":    quotes,
		"state":     runningTotal,
		"locations": twoLocations,
		"roundtrip": roundTrip,
		"protocol":  protocol,
	} {
		g := build().Graph()
		masked := build().Graph() // masked before drawing, because the width of a box depends on its text
		for i := range masked.Operators {
			masked.Operators[i].Pos = line.ReplaceAllString(masked.Operators[i].Pos, "$1")
		}
		for i := range masked.Slices {
			masked.Slices[i].Pos = line.ReplaceAllString(masked.Slices[i].Pos, "$1")
		}
		for ext, got := range map[string]string{".mmd": g.Mermaid(), ".dot": g.DOT(), ".svg": masked.SVG()} {
			got = line.ReplaceAllString(got, "$1")
			path := filepath.Join("testdata", "graph", name+ext)
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s has changed; if that is right, rerun with -update:\n%s", path, got)
			}
		}
		if again := build().Graph(); again.DOT() != g.DOT() || again.Mermaid() != g.Mermaid() {
			t.Errorf("%s looks different the second time", name)
		}
	}
}

// TestGraphOfRunning checks that the graph is the same before, during and after the run.
func TestGraphOfRunning(t *testing.T) {
	flow := quotes()
	before := flow.Graph().DOT()
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	if flow.Graph().DOT() != before {
		t.Error("the graph has changed with the start")
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if flow.Graph().DOT() != before {
		t.Error("the graph has changed with the end")
	}
}

// TestGraphPlaces checks that an operator's position is the program's call, and not a
// place inside the library.
func TestGraphPlaces(t *testing.T) {
	g := twoLocations().Graph()
	for _, op := range g.Operators {
		if !regexp.MustCompile(`^graph_test\.go:\d+$`).MatchString(op.Pos) {
			t.Errorf("%s was made at %s", op.Name, op.Pos)
		}
	}
	if empty := dataflow.New().Graph(); empty.Mermaid() != "flowchart LR\n" || len(empty.Operators) != 0 {
		t.Errorf("the empty flow looks like %q", empty.Mermaid())
	}
}
