package dataflow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// clocks is a flow whose timers were built in another order than that of their deadlines. Their
// firings go to one ordered output.
type clocks struct {
	in   *dataflow.EntryInputPort[string, time.Duration]
	busy *dataflow.InputPort[time.Duration] // keeps the location busy
	out  *dataflow.OutputPort[string]
}

func newClocks(at server, work func(time.Duration)) clocks {
	var c clocks
	in, keys := keyedsingleton.Input[string, time.Duration](at, "keys")
	busy, works := dataflow.Input[time.Duration](at, "busy")
	c.in, c.busy = in, busy
	dataflow.ForEach(works, work)
	each := func(d time.Duration) time.Duration { return d }
	timers := []dataflow.Stream[string, server, unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]{
		timerOf(keyedsingleton.After(keys, 20*time.Millisecond, "tested"), "20ms"),
		timerOf(keyedsingleton.After(keys, 10*time.Millisecond, "tested"), "10ms"),
		timerOf(keyedsingleton.After(keys, 20*time.Millisecond, "tested"), "20ms, built later"),
		timerOf(keyedsingleton.AfterEach(keys, each, "tested"), "each"),
		timerOf(keyedsingleton.After(keyedsingleton.After(keys, 10*time.Millisecond, "tested"), 5*time.Millisecond, "tested"), "10ms + 5ms"),
		dataflow.WeakenOrder(dataflow.Map(dataflow.Interval(at, 8*time.Millisecond, "tested"), func(d time.Duration) string { return fmt.Sprint("interval ", d) })),
	}
	c.out = dataflow.Output(dataflow.AssumeOrder(mergeAll(timers), "tested"), "fired")
	return c
}

// timerOf returns the key of each entry with a name, in the order of arrival.
func timerOf[V any](ks dataflow.KeyedSingleton[string, V, server, bounds.BoundedValue], name string) dataflow.Stream[string, server, unbounded, dataflow.NoOrder, dataflow.ExactlyOnce] {
	return dataflow.Map(keyedsingleton.Keys(ks), func(k string) string { return k + " " + name })
}

func mergeAll[T any](all []dataflow.Stream[T, server, unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]) dataflow.Stream[T, server, unbounded, dataflow.NoOrder, dataflow.ExactlyOnce] {
	merged := all[0]
	for _, s := range all[1:] {
		merged = dataflow.Merge(merged, s)
	}
	return merged
}

func (c clocks) read(t *testing.T, n int) []string {
	var got []string
	for range n {
		x, err := c.out.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, x)
	}
	return got
}

// TestTimersOfABusyLocation lets timers come due while their location is busy. They fire in order
// of deadline, including those that other firings set. An interval fires only its last missed time.
// A rerun of the recorded history gives the same result.
func TestTimersOfABusyLocation(t *testing.T) {
	var recording dataflow.Recording
	var want []string
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.NewWithOptions(dataflow.Options{Record: &recording})
		c := newClocks(dataflow.At[server](flow), time.Sleep)
		app := start(t, flow)
		if err := c.in.Put(t.Context(), "a", 17*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // in the bubble's time
		if err := c.in.Put(t.Context(), "b", 12*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if err := c.busy.Send(t.Context(), 43*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		want = []string{
			"a 10ms", "b 10ms", "b each", "a 10ms + 5ms", "b 10ms + 5ms", "a each",
			"a 20ms", "a 20ms, built later", "b 20ms", "b 20ms, built later", "interval 40ms",
		}
		if got := c.read(t, len(want)); !slices.Equal(got, want) {
			t.Errorf("got\n%q, want\n%q", got, want)
		}
		more := []string{"interval 48ms", "interval 56ms", "interval 64ms", "interval 72ms"}
		if got := c.read(t, len(more)); !slices.Equal(got, more) {
			t.Errorf("got\n%q, want\n%q", got, more)
		}
		want = append(want, more...)
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	sim.Rerun(t, &recording, func(s *sim.Sim) {
		c := newClocks(dataflow.At[server](s.Flow()), func(time.Duration) {})
		s.Start()
		if got := c.read(t, len(want)); !slices.Equal(got, want) {
			t.Errorf("the recording gives\n%q, and the run was\n%q", got, want)
		}
	})
}

// TestTimersCloseToEachOther lets timers come due so close together that the location learns of
// both at once, with the real clock.
func TestTimersCloseToEachOther(t *testing.T) {
	for _, gap := range []time.Duration{time.Nanosecond, 20 * time.Microsecond, 100 * time.Microsecond} {
		flow := dataflow.New()
		in, keys := keyedsingleton.Input[int, int](dataflow.At[server](flow), "keys")
		later := keyedsingleton.Map(keyedsingleton.After(keys, time.Millisecond+gap, "tested"), func(int) string { return "later" })
		earlier := keyedsingleton.Map(keyedsingleton.After(keys, time.Millisecond, "tested"), func(int) string { return "earlier" })
		both := keyedstream.Merge(keyedsingleton.IntoKeyedStream(later), keyedsingleton.IntoKeyedStream(earlier))
		out := keyedsingleton.Output(keyedstream.First(keyedstream.AssumeOrder(both, "tested")), "first")
		start(t, flow)
		wrong := 0
		for k := range 40 {
			if err := in.Put(t.Context(), k, k); err != nil {
				t.Fatal(err)
			}
			first, err := out.Await(t.Context(), k)
			if err != nil {
				t.Fatal(err)
			}
			if first != "earlier" {
				wrong++
			}
		}
		if wrong > 0 {
			t.Errorf("timers %v apart: the later one came first %d times in 40", gap, wrong)
		}
	}
}

// TestTimersInTheSimulator checks that every schedule shows the timers of one record in order of
// deadline, whatever else happens in between.
func TestTimersInTheSimulator(t *testing.T) {
	n := sim.Exhaustive(t, func(s *sim.Sim) {
		at := dataflow.At[server](s.Flow())
		in, keys := keyedsingleton.Input[string, int](at, "keys")
		timers := []dataflow.Stream[string, server, unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]{
			timerOf(keyedsingleton.After(keys, 20, "tested"), "20"),
			timerOf(keyedsingleton.After(keys, 10, "tested"), "10"),
			timerOf(keyedsingleton.After(keyedsingleton.After(keys, 10, "tested"), 5, "tested"), "15"),
			timerOf(keyedsingleton.After(keys, 20, "tested"), "20 as well"),
		}
		out := dataflow.Output(dataflow.AssumeOrder(mergeAll(timers), "tested"), "fired")
		s.Start()
		for _, k := range []string{"a", "b"} {
			if err := in.Put(s.Context(), k, 0); err != nil {
				s.Fatalf("%v", err)
			}
		}
		in.Close()
		got := make(map[string][]string)
		for x := range out.All(s.Context()) {
			k, name, _ := strings.Cut(x, " ")
			got[k] = append(got[k], name)
		}
		for k, fired := range got {
			if !slices.Equal(fired, []string{"10", "15", "20", "20 as well"}) {
				s.Fatalf("the timers of %s fired in the order %q", k, fired)
			}
		}
		if len(got) != 2 {
			s.Fatalf("timers of %d keys fired", len(got))
		}
	})
	if n < 2 {
		t.Errorf("there are only %d schedules", n)
	}
}
