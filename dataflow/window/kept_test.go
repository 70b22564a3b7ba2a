package window_test

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
)

// A box is large enough not to share its memory with others.
type box [64]byte

// TestKeepsNoValue sends events of one key, one each millisecond, and then events hours later. By
// then an operator may keep spare memory, but none of the earlier values: a value may refer to any
// amount of memory.
func TestKeepsNoValue(t *testing.T) {
	type events struct {
		all dataflow.Stream[window.Event[*box], server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
		of  dataflow.KeyedStream[int, window.Event[*box], server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	}
	const trailing, goesOn = "trailing", "trailing, of which some still count"
	last := func() *box { return nil }
	set := func(a *(*box), b *box) { *a = b }
	for name, build := range map[string]func(es events){
		"fold": func(es events) {
			closed, _ := window.Fold(es.of, window.Every(10*time.Millisecond), last, set)
			keyedsingleton.Inspect(closed, func(*box) {})
		},
		"fold of spans that overlap": func(es events) {
			window.Fold(es.of, window.Sliding(50*time.Millisecond, 10*time.Millisecond), last, set)
		},
		"open spans": func(es events) {
			_, open := window.Fold(es.of, window.Every(10*time.Millisecond), last, set)
			keyedsingleton.Inspect(open, func(*box) {})
		},
		"sessions": func(es events) {
			window.Sessions(es.of, time.Second, last, set, func(a *(*box), b *box) { *a = b }, "the last one")
		},
		trailing: func(es events) { window.Trailing(es.of, time.Second, last, set, func(*(*box), *box) {}) },
		goesOn:   func(es events) { window.Trailing(es.of, time.Second, last, set, func(*(*box), *box) {}) },
		"sort":   func(es events) { window.Sort(es.all) },
		"unique": func(es events) { window.Unique(es.of) },
		"join": func(es events) {
			window.Join(es.of, es.of, window.Within{Before: 20 * time.Millisecond, After: 20 * time.Millisecond})
		},
		"left join": func(es events) { window.LeftJoin(es.of, es.of, window.Within{Before: 20 * time.Millisecond}) },
		"as of":     func(es events) { window.AsOf(es.of, es.of) },
	} {
		for _, slack := range []time.Duration{0, 30 * time.Millisecond} {
			t.Run(name, func(t *testing.T) {
				type item struct {
					at window.Time
					b  *box
				}
				flow := dataflow.New()
				in, xs := dataflow.Input[item](dataflow.At[server](flow), "boxes")
				es, _ := window.Stamp(xs, func(x item) window.Time { return x.at }, window.Disorder{Slack: slack})
				all := dataflow.Map(es, func(e window.Event[item]) window.Event[*box] { return window.With(e, e.Value.b) })
				build(events{all, dataflow.KeyBy(all, func(window.Event[*box]) int { return 1 })})
				app, err := dataflow.Start(t.Context(), flow)
				if err != nil {
					t.Fatal(err)
				}
				var seen []weak.Pointer[box]
				var batch []item
				for i := range 200 {
					x := item{window.Time(i) * window.Time(time.Millisecond), new(box)}
					seen = append(seen, weak.Make(x.b))
					if i%3 == 0 { // one at a time, and in batches
						if err := in.Send(t.Context(), x); err != nil {
							t.Fatal(err)
						}
						continue
					}
					if batch = append(batch, x); i%3 == 2 {
						if _, err := in.SendBatch(t.Context(), batch); err != nil {
							t.Fatal(err)
						}
						clear(batch)
						batch = batch[:0]
					}
				}
				// The first of these moves the mark past the earlier events, which are then
				// emitted. An operator keeps its last batch until the next one, so the rest are
				// sent in batches as large as before and one at a time.
				next, counts := time.Hour, 200
				if name == goesOn {
					next, counts = 1150*time.Millisecond, 100
				}
				for i := range window.Time(3) {
					late := item{window.Time(next) + i*window.Time(next)/25, nil}
					if _, err := in.SendBatch(t.Context(), []item{late, late, late}); err != nil {
						t.Fatal(err)
					}
					if err := in.Send(t.Context(), late); err != nil {
						t.Fatal(err)
					}
				}
				for deadline := time.Now().Add(5 * time.Second); ; runtime.Gosched() {
					runtime.GC()
					var kept []int
					for i, x := range seen {
						if i < counts && x.Value() != nil {
							kept = append(kept, i)
						}
					}
					if len(kept) == 0 {
						break
					}
					if time.Now().After(deadline) {
						t.Fatalf("with a slack of %v, of %d these are kept: %v", slack, len(seen), kept)
					}
				}
				in.Close()
				if err := app.Wait(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}
