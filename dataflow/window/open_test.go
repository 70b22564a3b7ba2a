package window_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// TestOpenOrClosed is case 58: at each cut every span is either open or closed, and no event is missed.
func TestOpenOrClosed(t *testing.T) {
	for _, name := range []string{"count", "sessions"} {
		t.Run(name, func(t *testing.T) {
			sim.Exhaustive(t, func(s *sim.Sim) {
				here := dataflow.At[server](s.Flow())
				in, xs := dataflow.Input[tick](here, "ticks")
				es, _ := window.Stamp(xs, at, slack(2))
				byKey := dataflow.KeyBy(es, key)
				closed, open := window.Count(byKey, window.Every(10*time.Second))
				if name == "sessions" {
					closed, open = window.Sessions(byKey, 4*time.Second, func() int { return 0 }, func(n *int, _ tick) { *n++ }, func(n *int, m int) { *n += m }, "a sum")
				}
				cut := slice.At(here)
				total := func(es dataflow.KeyedSingleton[window.Key[string], int, dataflow.Tick[server], bounded]) dataflow.Singleton[int, dataflow.Tick[server], bounded] {
					return dataflow.Sum(keyedsingleton.Values(es))
				}
				// The open spans and those closed so far contain every event so far.
				late := total(slice.SnapshotEntries(cut, open, "any cut will do"))
				before, keep := slice.State(cut, 0)
				done := singleton.Map(singleton.Zip(before, total(slice.BatchEntries(cut, closed, "any cut will do"))), func(p dataflow.Pair[int, int]) int { return p.First + p.Second })
				keep(done)
				all := singleton.Map(singleton.Zip(done, late), func(p dataflow.Pair[int, int]) int { return p.First + p.Second })
				out := dataflow.Output(slice.Emit(singleton.IntoStream(all)), "so far")
				s.Start()
				for _, x := range of("a", 1, 5, 8, 11, 13, 30) {
					s.Check(in.Send(s.Context(), x))
				}
				in.Close()
				got := sim.Collect(s, out)
				if !slices.IsSorted(got) || len(got) == 0 || got[len(got)-1] != 6 {
					s.Errorf("so far there were %v", got)
				}
			})
		})
	}
}

// TestStampKeyed checks that all keys have one mark, so the order between keys decides which
// event is late.
func TestStampKeyed(t *testing.T) {
	results := map[string]bool{}
	sim.Exhaustive(t, func(s *sim.Sim) {
		in, xs := keyedstream.Input[string, tick](dataflow.At[server](s.Flow()), "ticks")
		es, late := window.StampKeyed(xs, at, slack(0), "tried")
		closed, _ := window.Count(es, window.Every(10*time.Second))
		b := ports{outs: []*dataflow.OutputPort[string]{
			dataflow.Output(counted(closed), "closed"),
			dataflow.Output(dataflow.Map(keyedstream.Values(late), func(e window.Event[tick]) string { return "late " + e.Value.Key }), "late"),
		}}
		s.Start()
		s.Check(in.Send(s.Context(), "a", tick{"a", 5, 1}))
		s.Check(in.Send(s.Context(), "b", tick{"b", 3, 1}))
		in.Close()
		results[report([][]string{sim.Collect(s, b.outs[0]), sim.Collect(s, b.outs[1])}, false)] = true
	})
	if got := fmt.Sprint(slices.Sorted(maps.Keys(results))); got != "[a[0,10)=1 b[0,10)=1 |  a[0,10)=1 | late b]" {
		t.Error(got)
	}
}

// TestMark checks that the mark is available as a value that only grows.
func TestMark(t *testing.T) {
	check(t, [][]tick{of("a", 5, 3, 9)}, want{report: "past 3 | "}, func(xs []ticks) []text {
		es, late := window.Stamp(xs[0], at, slack(2))
		reached := singleton.Threshold(window.Mark(es), seconds(3))
		return []text{dataflow.WeakenOrder(dataflow.Map(reached, func(t window.Time) string { return "past " + inSeconds(t) })), said("late", late)}
	})
}
