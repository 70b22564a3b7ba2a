package window_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedstream"
)

type keyedEvents = dataflow.KeyedStream[string, window.Event[tick], server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]

// TestEndsInAnyOrder closes two sources in both orders. The mark of one source is ahead of all its
// remaining events. Alarms set by alarms continue up to that mark, whichever source ends last, also
// behind operators with marks of their own.
func TestEndsInAnyOrder(t *testing.T) {
	again := func(_ *int, a window.Alarm, do *window.Turn[string, string, int]) {
		do.Emit(fmt.Sprint(do.Now().Time().Unix()))
		do.At(a, do.Now().Add(10*time.Second))
	}
	ring := func(_ *int, _ tick, do *window.Turn[string, string, int]) { do.At(1, do.Now().Add(10*time.Second)) }
	ways := map[string]func(a, b eventStream) keyedEvents{
		"merged": func(a, b eventStream) keyedEvents {
			return dataflow.KeyBy(dataflow.AssumeOrder(dataflow.Merge(a, b), "tested"), key)
		},
		"sorted": func(a, b eventStream) keyedEvents {
			return dataflow.KeyBy(window.Sort(dataflow.AssumeOrder(dataflow.Merge(a, b), "tested")), key)
		},
		"joined": func(a, b eventStream) keyedEvents {
			pairs := window.AsOf(dataflow.KeyBy(a, key), dataflow.KeyBy(b, key))
			return keyedstream.Map(pairs, func(e window.Event[dataflow.Pair[tick, dataflow.Maybe[tick]]]) window.Event[tick] {
				return window.With(e, e.Value.First)
			})
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			results := make(map[string]string)
			for _, last := range []string{"a", "b"} {
				flow := dataflow.New()
				a, as := dataflow.Input[tick](dataflow.At[server](flow), "a")
				b, bs := dataflow.Input[tick](dataflow.At[server](flow), "b")
				first, _ := window.Stamp(as, at, slack(0))
				second, _ := window.Stamp(bs, at, slack(0))
				some := dataflow.Filter(first, func(e window.Event[tick]) bool { return e.Value.N > 0 })
				emitted, _ := window.Machine(way(some, second), func() int { return 0 }, ring, again)
				out := dataflow.Output(dataflow.Map(keyedstream.Entries(emitted), func(e dataflow.Entry[string, window.Event[string]]) string { return e.Value.Value }), "rings")
				app, err := dataflow.Start(t.Context(), flow)
				if err != nil {
					t.Fatal(err)
				}
				send(t, a, tick{"k", 10, 1}, tick{"k", 100, 0})
				send(t, b, tick{"other", 50, 0})
				if last == "a" {
					b.Close()
					a.Close()
				} else {
					a.Close()
					b.Close()
				}
				var all []string
				for line, err := out.Next(t.Context()); err == nil; line, err = out.Next(t.Context()) {
					all = append(all, line)
				}
				if err := app.Wait(); err != nil {
					t.Fatal(err)
				}
				results[last] = strings.Join(all, " ")
			}
			if results["a"] != results["b"] || !strings.Contains(results["a"], "90") {
				t.Errorf("if a ends last: %s, if b does: %s", results["a"], results["b"])
			}
		})
	}
}
