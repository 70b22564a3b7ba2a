package dataflow_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
)

// signed returns a number with its sign, which a negative zero has as well.
func signed(x float64) string { return fmt.Sprintf("%+g", x) }

// TestNegativeZero sends a zero and a negative zero in both orders and in one step or two. They are equal, but a function can
// tell them apart. What has no order must give the same each time, so an operator that keeps one of equal elements must not show
// which of them came first.
func TestNegativeZero(t *testing.T) {
	minus := math.Copysign(0, -1)
	var want string
	for _, batches := range [][][]float64{{{0, minus}}, {{minus, 0}}, {{0}, {minus}}, {{minus}, {0}}} {
		flow := dataflow.New()
		at := dataflow.At[server](flow)
		in, ordered := dataflow.Input[float64](at, "numbers")
		xs := dataflow.WeakenOrder(ordered)
		all := make(map[string][]string)
		note := func(name string) func(string) {
			return func(x string) { all[name] = append(all[name], x) }
		}
		elements := func(name string, s dataflow.Stream[float64, server, unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]) {
			dataflow.Inspect(dataflow.Map(s, signed), note(name))
		}
		byNumber := dataflow.KeyBy(xs, func(x float64) float64 { return x })
		byAny := dataflow.KeyBy(xs, func(x float64) any { return [2]any{"a", x} })
		here := dataflow.KeyBy(xs, func(float64) string { return "here" })
		elements("Unique", dataflow.Unique(xs))
		elements("KeyBy", keyedstream.Keys(byNumber))
		elements("KeyByRef", keyedstream.Keys(dataflow.KeyByRef(xs, func(x *float64) float64 { return *x })))
		elements("Keyed", keyedstream.Keys(dataflow.Keyed(dataflow.Map(xs, func(x float64) dataflow.Entry[float64, int] { return dataflow.Entry[float64, int]{Key: x} }))))
		elements("Rekey", keyedstream.Keys(keyedstream.Rekey(here, func(_ string, x float64) float64 { return x })))
		elements("any", dataflow.Map(keyedstream.Keys(byAny), func(k any) float64 { return k.([2]any)[1].(float64) }))
		elements("keyed Unique", keyedstream.Values(keyedstream.Unique(here)))
		events, _ := window.Stamp(ordered, func(float64) window.Time { return 1 }, window.Disorder{})
		event := dataflow.KeyBy(dataflow.WeakenOrder(events), func(window.Event[float64]) string { return "here" })
		elements("window.Unique", dataflow.Map(keyedstream.Values(window.Unique(event)), func(e window.Event[float64]) float64 { return e.Value }))
		latest := map[string]func() (string, bool){
			"Max": optional.Output(optional.Map(dataflow.Max(xs), signed), "max").Latest,
			"Min": optional.Output(optional.Map(dataflow.Min(xs), signed), "min").Latest,
		}
		shown := func(ks dataflow.View[string, string]) string { return ks.String() }
		latest["keyed Max"] = singleton.Output(singleton.Map(keyedsingleton.IntoSingleton(keyedsingleton.Map(keyedstream.Max(here), signed)), shown), "kmax").Latest
		latest["keyed Min"] = singleton.Output(singleton.Map(keyedsingleton.IntoSingleton(keyedsingleton.Map(keyedstream.Min(here), signed)), shown), "kmin").Latest
		// Two in one batch are sorted; a constant is always one.
		constant := dataflow.WeakenOrder(dataflow.Of(at, slices.Concat(batches...)...))
		dataflow.ForEach(dataflow.Map(dataflow.Sort(constant), signed), note("Sort"))
		sorted := keyedstream.Sort(dataflow.KeyBy(constant, func(float64) int { return 1 }))
		lists := keyedstream.Fold(sorted, func() string { return "" }, func(acc *string, x float64) { *acc += signed(x) })
		keyedsingleton.Inspect(lists, note("keyed Sort"))
		inSteps(flow, in, batches, func() {})
		var texts []string
		for name, xs := range all {
			texts = append(texts, name+": "+strings.Join(xs, " "))
		}
		for name, f := range latest {
			x, _ := f()
			texts = append(texts, name+": "+x)
		}
		slices.Sort(texts)
		if got := strings.Join(texts, "\n"); want == "" {
			want = got
		} else if got != want {
			t.Errorf("%v: got\n%s\nwant\n%s", batches, got, want)
		}
	}
}
