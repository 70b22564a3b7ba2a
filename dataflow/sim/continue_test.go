package sim_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/recordings"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

// A went is a program with everything that can be in progress when a recording ends: an entry that waits
// for a timer, a call without an answer, and records that go round a cycle and to another location.
type went struct {
	orders *dataflow.EntryInputPort[int, int]
	xs     *dataflow.InputPort[int]
	lists  *dataflow.OutputPort[[]int]
	called *dataflow.EntryOutputPort[int, int]
	late   *dataflow.EntryOutputPort[int, int]
	away   *dataflow.OutputPort[int]
	down   *dataflow.OutputPort[int]
}

func newWent(flow *dataflow.Flow, times int, ask func(context.Context, int) int) (w went) {
	at := dataflow.At[Server](flow)
	var orders entries[int, int]
	var xs stream[int]
	w.orders, orders = keyedsingleton.Input[int, int](at, "orders")
	w.xs, xs = dataflow.Input[int](at, "xs")
	w.called = keyedsingleton.Output(keyedsingleton.MapAsync(orders, ask, keyedsingleton.AsyncOptions{}), "called")
	w.late = keyedsingleton.Output(keyedsingleton.After(orders, time.Hour, tried), "late")
	tick := slice.At(at)
	w.lists = emit(list(slice.Batch(tick, xs, tried)))
	w.away = dataflow.Output(dataflow.Send(dataflow.Map(xs, func(x int) int { return times * x }), dataflow.At[Away](flow)), "away")
	loop, again := dataflow.Cycle[int, ordered](at, "down")
	smaller := dataflow.FilterMap(slice.Emit(slice.Batch(slice.At(at), dataflow.MergeOrdered(xs, again, tried), tried)), func(x int) (int, bool) { return x - 1, x > 1 })
	loop.Complete(smaller)
	w.down = dataflow.Output(smaller, "down")
	return w
}

// recordWent records a production run that takes an order and two numbers, and whose call gets no answer.
func recordWent(t *testing.T) *dataflow.Recording {
	t.Helper()
	recording := new(dataflow.Recording)
	flow := dataflow.NewWithOptions(dataflow.Options{Record: recording})
	ended := make(chan struct{}) // the call runs until then: an answer would be recorded if the flow is slow to end
	defer close(ended)
	w := newWent(flow, 10, func(context.Context, int) int { <-ended; return 0 })
	ctx, cancel := context.WithCancel(t.Context())
	app, err := dataflow.Start(ctx, flow)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(err)
	check(w.orders.Put(ctx, 7, 70))
	_, err = w.xs.SendBatch(ctx, []int{1, 2})
	check(err)
	for _, out := range []*dataflow.OutputPort[int]{w.away, w.away, w.down} { // so that all of it is taken
		_, err = out.Next(ctx)
		check(err)
	}
	cancel()
	if err := app.Wait(); err == nil {
		t.Fatal("the flow has ended")
	}
	return recording
}

// TestContinue checks that everything in progress continues, also after a recording was written and
// read. It catches state that the recorded steps do not restore.
func TestContinue(t *testing.T) {
	recording := recordWent(t)
	var file bytes.Buffer
	if _, err := recordings.Write(&file, recording); err != nil {
		t.Fatal(err)
	}
	read, err := recordings.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	for name, recording := range map[string]*dataflow.Recording{"in memory": recording, "from a file": read} {
		t.Run(name, func(t *testing.T) {
			got := make(map[string]bool)
			n := sim.Continue(t, recording, func(s *sim.Sim) {
				w := newWent(s.Flow(), 10, func(_ context.Context, x int) int { return x + 1 })
				s.Start()
				if err := w.orders.Put(s.Context(), 7, 1); err == nil {
					s.Errorf("a key that came is accepted again")
				}
				s.Check(w.xs.Send(s.Context(), 3))
				s.Check(w.xs.Send(s.Context(), 4))
				s.Quiesce()
				called, _ := w.called.Get(7)
				late, _ := w.late.Get(7)
				lists := sim.Collect(s, w.lists)
				if fmt.Sprint(called, late, sim.Collect(s, w.away), lists[:1]) != "71 70 [10 20 30 40] [[1 2]]" {
					s.Errorf("%d %d %v", called, late, lists)
				}
				got[fmt.Sprint(lists[1:])] = true
				s.Observe(len(sim.Collect(s, w.down)))
			})
			if want := []string{"[[3 4]]", "[[3] [4]]"}; !slices.Equal(slices.Sorted(maps.Keys(got)), want) {
				t.Errorf("%q, want %q", slices.Sorted(maps.Keys(got)), want)
			}
			if n != continued {
				t.Errorf("%d schedules, want %d", n, continued)
			}
		})
	}
}

// continued is the expected number of schedules.
const continued = 40

// TestContinueIsExhaustive checks that the schedules that continue a recorded run are exactly those
// of the whole program that begin with it.
func TestContinueIsExhaustive(t *testing.T) {
	build := func(flow *dataflow.Flow) (*dataflow.KeyedInputPort[string, int], *dataflow.OutputPort[string]) {
		in, xs := keyedstream.Input[string, int](dataflow.At[Server](flow), "xs")
		words := keyedstream.Fold(xs, func() string { return "" }, func(acc *string, x int) { *acc += fmt.Sprint(x) })
		return in, emit(set(slice.SnapshotEntries(slice.At(dataflow.At[Server](flow)), words, tried)))
	}
	recording := new(dataflow.Recording)
	flow := dataflow.NewWithOptions(dataflow.Options{Record: recording})
	in, out := build(flow)
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Send(t.Context(), "a", 1); err != nil {
		t.Fatal(err)
	}
	var began []string
	for len(began) == 0 || began[len(began)-1] != "{a:1}" { // an earlier batch may be that of the start
		x, err := out.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began = append(began, x)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	prefix := fmt.Sprint(began)

	after := func(s *sim.Sim, in *dataflow.KeyedInputPort[string, int]) {
		s.Check(in.Send(s.Context(), "a", 2))
		s.Check(in.Send(s.Context(), "b", 3))
		s.Check(in.Send(s.Context(), "a", 4))
	}
	want := make(map[string]bool)
	sim.Exhaustive(t, func(s *sim.Sim) {
		in, out := build(s.Flow())
		s.Start()
		s.Check(in.Send(s.Context(), "a", 1))
		s.Quiesce()
		after(s, in)
		if got := sim.Collect(s, out); fmt.Sprint(got[:len(began)]) == prefix {
			want[fmt.Sprint(got)] = true
		}
	})
	got := make(map[string]bool)
	n := sim.Continue(t, recording, func(s *sim.Sim) {
		in, out := build(s.Flow())
		s.Start()
		after(s, in)
		got[fmt.Sprint(sim.Collect(s, out))] = true
	})
	if !maps.Equal(got, want) {
		t.Errorf("%q, want %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	if n != len(want) || n == 0 {
		t.Errorf("%d schedules, want %d", n, len(want))
	}
}

// TestContinueRefuses checks that a function that gives another result than in the recording, and
// another flow, are errors that name the step.
func TestContinueRefuses(t *testing.T) {
	recording := recordWent(t)
	for _, test := range []struct {
		name, want string
		f          func(s *sim.Sim)
	}{
		{"another flow", "the recording does not fit this flow: operator 0 of Server was keyedsingleton.Input", func(s *sim.Sim) {
			dataflow.Input[int](dataflow.At[Server](s.Flow()), "xs")
			s.Start()
		}},
		{"another result", "cannot be made again: it takes 10 from dataflow.Send", func(s *sim.Sim) {
			newWent(s.Flow(), 11, func(context.Context, int) int { return 0 })
			s.Start()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			story := sim.ContinueFails(t, recording, test.f)
			if !strings.Contains(story, test.want) {
				t.Errorf("%s\nwant %q", story, test.want)
			}
		})
	}
}
