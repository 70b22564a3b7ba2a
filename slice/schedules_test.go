package slice_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

// everySchedule runs a flow in every schedule and returns the distinct results of build's
// function at the end of each.
func everySchedule(t *testing.T, build func(s *sim.Sim, at server) func() string) []string {
	all := make(map[string]bool)
	sim.Exhaustive(t, func(s *sim.Sim) {
		end := build(s, dataflow.At[server](s.Flow()))
		s.Start()
		s.Quiesce()
		all[end()] = true
	})
	return slices.Sorted(maps.Keys(all))
}

// notes returns a function that records its arguments, and one that returns all that was
// recorded, sorted if sorted is set.
func notes(sorted bool) (note func(string), all func() string) {
	var said []string
	return func(s string) { said = append(said, s) }, func() string {
		if sorted {
			slices.Sort(said)
		}
		return strings.Join(said, " ")
	}
}

// TestSchedulesOfState checks that two halves that wait for each other in a state meet once,
// in every order of arrival and for all cuts.
func TestSchedulesOfState(t *testing.T) {
	want(t, everySchedule(t, func(s *sim.Sim, at server) func() string {
		place, orders := keyedsingleton.Input[string, string](at, "orders")
		pay, payments := keyedsingleton.Input[string, string](at, "payments")
		tick := slice.At(at)
		waiting, keep := slice.StateEntries[string, string](tick)
		halves := keyedstream.Merge(keyedsingleton.IntoKeyedStream(slice.BatchEntries(tick, orders, why)), keyedsingleton.IntoKeyedStream(slice.BatchEntries(tick, payments, why)))
		all := keyedstream.AssumeOrder(keyedstream.Merge(keyedsingleton.IntoKeyedStream(waiting), halves), why)
		counts := keyedstream.Count(all)
		keep(keyedsingleton.FilterMap(keyedsingleton.JoinKeyedSingleton(counts, keyedstream.First(all)), func(p dataflow.Pair[int, string]) (string, bool) { return p.Second, p.First < 2 }))
		note, end := notes(true)
		settled := keyedsingleton.Filter(counts, func(n int) bool { return n == 2 })
		dataflow.ForEach(dataflow.AssumeOrder(slice.Emit(keyedsingleton.Keys(settled)), why), note)
		for _, k := range []string{"a", "b"} {
			s.Check(place.Put(s.Context(), k, "order"))
			s.Check(pay.Put(s.Context(), k, "payment"))
		}
		s.Check(pay.Put(s.Context(), "c", "payment"))
		return end
	}), "a b")
}

// TestSchedulesOfThreshold checks that Threshold has the same result in every schedule.
func TestSchedulesOfThreshold(t *testing.T) {
	want(t, everySchedule(t, func(s *sim.Sim, at server) func() string {
		set, thresholds := keyedsingleton.Input[string, int](at, "thresholds")
		in, votes := keyedstream.Input[string, int](at, "votes")
		note, end := notes(true)
		reached := keyedsingleton.Threshold(keyedstream.Count(votes), thresholds)
		each(contents(slice.BatchEntries(slice.At(at), reached, why)), note)
		s.Check(set.Put(s.Context(), "a", 2))
		s.Check(set.Put(s.Context(), "b", 3))
		for _, k := range []string{"a", "a", "b", "a", "b"} {
			s.Check(in.Send(s.Context(), k, 0))
		}
		return end
	}), "a:2")
}

// TestSchedulesOfForgetting lets the clock advance at any time. The second value of a key keeps
// the entry or brings it back, and at the end no entry is left.
func TestSchedulesOfForgetting(t *testing.T) {
	got := everySchedule(t, func(s *sim.Sim, at server) func() string {
		in, words := keyedstream.Input[string, int](at, "words")
		left := keyedsingleton.ForgetAfter(keyedstream.Count(words), time.Second, why)
		note, end := notes(false)
		each(contents(slice.SnapshotEntries(slice.At(at), left, why)), func(s string) { note("[" + s + "]") })
		s.Check(in.Send(s.Context(), "a", 0))
		s.Check(in.Send(s.Context(), "a", 0))
		return end
	})
	for _, must := range []string{"[a:1] [] [a:2] []", "[a:1] [a:2] []", "[]"} {
		if !slices.Contains(got, must) {
			t.Errorf("%q does not occur", must)
		}
	}
	for _, runs := range got {
		if !strings.HasSuffix(runs, "[]") || strings.Contains(runs, "[a:2] [a:1]") {
			t.Errorf("runs %q", runs)
		}
	}
}

// TestSchedulesOfMergeOrdered checks that exactly those interleavings occur that keep the
// order of each stream.
func TestSchedulesOfMergeOrdered(t *testing.T) {
	want(t, everySchedule(t, func(s *sim.Sim, at server) func() string {
		one, left := keyedstream.Input[int, string](at, "left")
		other, right := keyedstream.Input[int, string](at, "right")
		note, end := notes(false)
		keyedstream.Inspect(keyedstream.Filter(keyedstream.MergeOrdered(left, right, why), func(v string) bool { return v != "d" }), note)
		s.Check(one.Send(s.Context(), 1, "a"))
		s.Check(one.Send(s.Context(), 1, "b"))
		s.Check(other.Send(s.Context(), 1, "c"))
		s.Check(other.Send(s.Context(), 2, "d"))
		return end
	}), "a b c", "a c b", "c a b")
}
