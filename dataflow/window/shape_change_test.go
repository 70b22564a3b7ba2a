package window_test

import (
	"context"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/singleton"
)

// TestShapeChange checks that each event is in a span that contains it, and that an entry leaves open when it is
// closed, if a later program has longer or shorter spans that begin where others are open.
func TestShapeChange(t *testing.T) {
	type ports struct {
		in     *dataflow.InputPort[tick]
		closed *dataflow.EntryOutputPort[window.Key[string], int]
		open   *dataflow.SingletonOutputPort[dataflow.View[window.Key[string], int]]
		taken  *dataflow.SingletonOutputPort[int]
	}
	build := func(size time.Duration) func(*dataflow.Flow) ports {
		return func(flow *dataflow.Flow) ports {
			in, xs := dataflow.Input[tick](dataflow.At[server](flow), "ticks")
			es, _ := window.Stamp(xs, at, slack(30))
			closed, open := window.Count(dataflow.KeyBy(es, key), window.Every(size))
			view := dataflow.Named("view", keyedsingleton.IntoSingleton(open))
			return ports{in, keyedsingleton.Output(closed, "closed"), singleton.Output(view, "open"), singleton.Output(dataflow.Count(xs), "taken")}
		}
	}
	type spans map[string]int
	for name, test := range map[string]struct {
		sizes        []time.Duration
		times        [][]int // for each size
		closed, open spans
	}{
		"longer": {
			[]time.Duration{time.Minute, 2 * time.Minute, 2 * time.Minute},
			[][]int{{3, 10, 20}, {25, 61, 70, 85}, {95, 119, 300}},
			spans{"a[0,60)": 3, "a[0,120)": 6}, spans{"a[240,360)": 1},
		},
		"shorter": {
			[]time.Duration{2 * time.Minute, time.Minute},
			[][]int{{3, 10, 61}, {40, 62, 80, 121, 300}},
			spans{"a[0,120)": 3, "a[0,60)": 1, "a[60,120)": 2, "a[120,180)": 1}, spans{"a[300,360)": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			log := journal.NewMemory(journal.MemoryOptions{})
			closed, open, sent := spans{}, spans{}, 0
			for i, size := range test.sizes {
				app, err := durable.Start(ctx, build(size), durable.Options{Log: journal.Opened{Log: log.Reopen()}, Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range test.times[i] {
					if err := app.Ports.in.Send(ctx, tick{Key: "a", At: n}); err != nil {
						t.Fatal(err)
					}
				}
				sent += len(test.times[i])
				for n := range app.Ports.taken.Watch(ctx) { // a program with another shape takes what this one leaves
					if n == sent {
						break
					}
				}
				if i == len(test.sizes)-1 {
					for k, n := range app.Ports.closed.All(ctx) {
						if closed[spanned(k)] = n; len(closed) == len(test.closed) {
							break
						}
					}
					now, _ := app.Ports.open.Latest()
					for k, n := range now.All() {
						open[spanned(k)] = n
					}
				}
				if err := app.Stop(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if !maps.Equal(closed, test.closed) || !maps.Equal(open, test.open) {
				t.Errorf("closed %v and open %v, want %v and %v", closed, open, test.closed, test.open)
			}
		})
	}
}
