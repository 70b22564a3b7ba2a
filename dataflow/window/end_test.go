package window_test

import (
	"context"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

// TestEnd checks that time ends behind operators, and not only behind a port, once nothing more can
// arrive there: in production, from a recording and in every schedule.
func TestEnd(t *testing.T) {
	source := of("a", 1, 5, 12, 14, 25)
	const closed = "a[0,10)=2 a[10,20)=2 a[20,30)=1"
	byNumber := func(xs ticks) dataflow.KeyedSingleton[int, tick, server, boundedValue] {
		return keyedstream.First(dataflow.KeyBy(xs, func(x tick) int { return x.N }))
	}
	again := func(entries dataflow.KeyedSingleton[int, tick, server, boundedValue]) text {
		late := dataflow.AssumeOrder(keyedsingleton.Values(entries), "the slack is enough for any order")
		es, _ := window.Stamp(late, at, slack(1000))
		closed, _ := window.Count(dataflow.KeyBy(es, key), window.Every(10*time.Second))
		return counted(closed)
	}
	for _, x := range []struct {
		name  string
		build func(here server, xs ticks) text
	}{
		{"port", func(_ server, xs ticks) text { return again(byNumber(xs)) }},
		{"slice", func(here server, xs ticks) text {
			cut := slice.At(here)
			return again(slice.EmitEntries(slice.BatchEntries(cut, byNumber(xs), "each is passed on")))
		}},
		{"timer", func(_ server, xs ticks) text { return again(keyedsingleton.After(byNumber(xs), time.Second, "tried")) }},
		{"call", func(_ server, xs ticks) text {
			return again(keyedsingleton.MapAsync(byNumber(xs), func(_ context.Context, x tick) tick { return x }, keyedsingleton.AsyncOptions{}))
		}},
		{"stamped twice", func(_ server, xs ticks) text {
			es, _ := window.Stamp(xs, at, slack(2))
			twice, _ := window.Stamp(dataflow.Map(es, func(e window.Event[tick]) tick { return e.Value }), at, slack(1000))
			closed, _ := window.Count(dataflow.KeyBy(twice, key), window.Every(10*time.Second))
			return counted(closed)
		}},
		{"windows behind windows", func(here server, xs ticks) text {
			es, _ := window.Stamp(xs, at, slack(2))
			closed, _ := window.Count(dataflow.KeyBy(es, key), window.Every(10*time.Second))
			cut := slice.At(here)
			passed := slice.EmitEntries(slice.BatchEntries(cut, closed, "each is passed on"))
			lines := dataflow.AssumeOrder(keyedsingleton.Entries(passed), "the slack is enough for any order")
			twice, _ := window.Stamp(lines, func(e dataflow.Entry[window.Key[string], int]) window.Time { return e.Key.Span.From }, slack(1000))
			sums, _ := window.Fold(dataflow.KeyBy(twice, func(e window.Event[dataflow.Entry[window.Key[string], int]]) string { return e.Value.Key.Key }),
				window.Every(10*time.Second), func() int { return 0 }, func(n *int, e dataflow.Entry[window.Key[string], int]) { *n += e.Value })
			return counted(sums)
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			make := func(flow *dataflow.Flow) ports {
				here := dataflow.At[server](flow)
				in, xs := dataflow.Input[tick](here, "ticks")
				return ports{[]*dataflow.InputPort[tick]{in}, []*dataflow.OutputPort[string]{dataflow.Output(x.build(here, xs), "closed")}}
			}
			var record dataflow.Recording
			flow := dataflow.NewWithOptions(dataflow.Options{Record: &record})
			b := make(flow)
			app, err := dataflow.Start(t.Context(), flow)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.ins[0].SendBatch(t.Context(), source); err != nil {
				t.Fatal(err)
			}
			b.ins[0].Close()
			var got []string
			for line := range b.outs[0].All(t.Context()) {
				got = append(got, line)
			}
			if err := app.Wait(); err != nil || report([][]string{got}, false) != closed {
				t.Errorf("closed are %v, %v", got, err)
			}
			sim.Rerun(t, &record, func(s *sim.Sim) {
				b := make(s.Flow())
				s.Start()
				if got := report([][]string{sim.Collect(s, b.outs[0])}, false); got != closed {
					s.Errorf("from the recording closed are %s", got)
				}
			})
			sim.Random(t, 50, func(s *sim.Sim) {
				b := make(s.Flow())
				s.Start()
				for _, x := range source {
					s.Check(b.ins[0].Send(s.Context(), x))
				}
				b.ins[0].Close()
				if got := report([][]string{sim.Collect(s, b.outs[0])}, false); got != closed {
					s.Errorf("closed are %s", got)
				}
			})
		})
	}
}

// elsewhere is a second location.
type elsewhere struct{ dataflow.Process }

// TestEndElsewhere checks that time ends at a location that receives from another one.
func TestEndElsewhere(t *testing.T) {
	const closed = "a[0,10)=2 a[10,20)=1"
	make := func(flow *dataflow.Flow) (*dataflow.InputPort[tick], *dataflow.OutputPort[string]) {
		in, xs := dataflow.Input[tick](dataflow.At[elsewhere](flow), "ticks")
		moved := dataflow.Send(xs, dataflow.At[server](flow))
		es, _ := window.Stamp(dataflow.AssumeOrder(moved, "one location sends"), at, slack(0))
		all, _ := window.Count(dataflow.KeyBy(es, key), window.Every(10*time.Second))
		return in, dataflow.Output(counted(all), "closed")
	}
	flow := dataflow.New()
	in, out := make(flow)
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.SendBatch(t.Context(), of("a", 1, 5, 12)); err != nil {
		t.Fatal(err)
	}
	in.Close()
	var got []string
	for line := range out.All(t.Context()) {
		got = append(got, line)
	}
	if err := app.Wait(); err != nil || report([][]string{got}, false) != closed {
		t.Errorf("closed are %v, %v", got, err)
	}
	sim.Exhaustive(t, func(s *sim.Sim) {
		in, out := make(s.Flow())
		s.Start()
		for _, x := range of("a", 1, 5, 12) {
			s.Check(in.Send(s.Context(), x))
		}
		in.Close()
		if got := report([][]string{sim.Collect(s, out)}, false); got != closed {
			s.Errorf("closed are %s", got)
		}
	})
}

// TestEndsAtTheStart checks that time ends with the first step behind an input that is closed before
// the start, although another input of the location stays open.
func TestEndsAtTheStart(t *testing.T) {
	flow := dataflow.New()
	here := dataflow.At[server](flow)
	in, xs := dataflow.Input[tick](here, "ticks")
	_, open := dataflow.Input[tick](here, "more ticks")
	out := func(xs ticks, name string) *dataflow.OutputPort[string] {
		es, _ := window.Stamp(xs, at, slack(1000))
		closed, _ := window.Count(dataflow.KeyBy(es, key), window.Every(10*time.Second))
		return dataflow.Output(counted(closed), name)
	}
	ended, _ := out(xs, "closed"), out(open, "of more ticks")
	if _, err := in.SendBatch(t.Context(), of("a", 1, 5)); err != nil {
		t.Fatal(err)
	}
	in.Close()
	if _, err := dataflow.Start(t.Context(), flow); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if line, err := ended.Next(ctx); err != nil || line != "a[0,10)=2" {
		t.Errorf("closed is %q, %v", line, err)
	}
}
