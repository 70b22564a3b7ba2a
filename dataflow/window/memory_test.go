package window_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/internal/long"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// heap returns the memory in use after a collection, in MiB.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// TestForgets sends events of keys that occur once, and measures the memory when the mark has
// passed all except the last.
func TestForgets(t *testing.T) {
	type once = window.Event[int]
	keys := long.Of(500_000, 2_000_000)
	for _, x := range []struct {
		name  string
		build func(ks dataflow.KeyedStream[int, once, server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce])
	}{
		{"count", func(ks dataflow.KeyedStream[int, once, server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]) {
			closed, _ := window.Count(ks, window.Every(time.Second))
			keyedsingleton.Inspect(closed, func(int) {})
		}},
		{"sessions", func(ks dataflow.KeyedStream[int, once, server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]) {
			window.Sessions(ks, time.Second, func() int { return 0 }, func(n *int, _ int) { *n++ }, func(n *int, m int) { *n += m }, "a sum")
		}},
		{"67 trailing", func(ks dataflow.KeyedStream[int, once, server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]) {
			recent := window.Trailing(ks, time.Second, func() int { return 0 }, func(n *int, _ int) { *n++ }, func(n *int, _ int) { *n-- })
			keyedstream.Inspect(recent, func(window.Event[dataflow.Pair[int, int]]) {})
		}},
		{"join", func(ks dataflow.KeyedStream[int, once, server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]) {
			window.LeftJoin(ks, ks, window.Within{Before: time.Second, After: time.Second})
		}},
		{"unique", func(ks dataflow.KeyedStream[int, once, server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]) {
			window.Unique(ks)
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			flow := dataflow.New()
			in, ns := dataflow.Input[int](dataflow.At[server](flow), "keys")
			// A thousand keys a second.
			es, _ := window.Stamp(ns, func(n int) window.Time { return window.Time(n) * window.Time(time.Millisecond) }, window.Disorder{Slack: time.Second})
			x.build(dataflow.KeyBy(es, func(e once) int { return e.Value }))
			app, err := dataflow.Start(t.Context(), flow)
			if err != nil {
				t.Fatal(err)
			}
			before := heap()
			batch := make([]int, 500)
			for sent := 0; sent < keys; sent += len(batch) {
				for i := range batch {
					batch[i] = sent + i
				}
				if _, err := in.SendBatch(t.Context(), batch); err != nil {
					t.Fatal(err)
				}
			}
			if grown := heap() - before; grown > 2 {
				t.Errorf("after %d keys that came once it has %.1f MiB more", keys, grown)
			}
			in.Close()
			if err := app.Wait(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestManyOpenSpans is case 68: many spans are open, with one event in each.
func TestManyOpenSpans(t *testing.T) {
	const spans = 100_000
	flow := dataflow.New()
	in, ns := dataflow.Input[int](dataflow.At[server](flow), "times")
	es, _ := window.Stamp(ns, seconds, slack(spans))
	closed, _ := window.Count(dataflow.KeyBy(es, func(window.Event[int]) string { return "a" }), window.Every(time.Second))
	n := 0
	keyedsingleton.Inspect(closed, func(int) { n++ })
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	before := heap()
	all := make([]int, spans)
	for i := range all {
		all[i] = i
	}
	if _, err := in.SendBatch(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if grown := heap() - before; grown > 20 {
		t.Errorf("%d open spans take %.1f MiB", spans, grown)
	}
	in.Close()
	if err := app.Wait(); err != nil || n != spans {
		t.Error(n, err)
	}
}
