package sim_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
)

// adding has a call for each of n keys add 1 to what a store has, in two steps if split.
func adding(s *sim.Sim, n, atOnce int, split bool) (stored int) {
	in, requests := keyedsingleton.Input[int, int](dataflow.At[Server](s.Flow()), "requests")
	keyedsingleton.Output(keyedsingleton.MapAsync(requests, func(ctx context.Context, x int) int {
		was := stored
		if split {
			sim.Point(ctx, "between read and write")
		}
		stored = was + 1
		return x
	}, keyedsingleton.AsyncOptions{Concurrency: atOnce}), "answers")
	s.Start()
	for i := range n {
		s.Check(in.Put(s.Context(), i, i))
	}
	s.Quiesce()
	s.Observe(stored)
	return stored
}

// TestPoint: two calls that read and write a store lose a write if other calls come between the two, and
// do not if they are made one at a time. It would catch a call that is one move although it is split,
// and one that begins although as many as may are at a point.
func TestPoint(t *testing.T) {
	for _, test := range []struct {
		n, atOnce int
		split     bool
		want      []int
	}{
		{2, 2, false, []int{2}}, {2, 2, true, []int{1, 2}}, {2, 1, true, []int{2}}, {3, 3, true, []int{1, 2, 3}}, {3, 2, true, []int{1, 2, 3}},
	} {
		for _, level := range []sim.Level{sim.Types, sim.Engine} {
			for _, whole := range []bool{false, true}[:4-test.n] { // 3 calls have too many schedules without the reduction
				seen := make(map[int]bool)
				sim.ExploreAt(t, level, func(s *sim.Sim) { seen[adding(s, test.n, test.atOnce, test.split)] = true }, whole)
				if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, test.want) {
					t.Errorf("%+v at level %v, whole %v: the store has %v", test, level, whole, got)
				}
			}
		}
	}
}

// TestPointFails: a lost write is told move by move, comes again from its choices, and is shortened.
func TestPointFails(t *testing.T) {
	f := func(s *sim.Sim) {
		if n := adding(s, 2, 2, true); n < 2 {
			s.Fatalf("a write is lost")
		}
	}
	story, trace := sim.Fails(t, f)
	if !strings.Contains(story, "go on with the call 0:0 of keyedsingleton.MapAsync") || !strings.Contains(story, "between read and write") {
		t.Errorf("the story is\n%s", story)
	}
	if _, ok := sim.Shorten(t, trace, f); !ok {
		t.Errorf("%s does not fail again", trace)
	}
}

// TestPointAndPort: a call that was at a point may wait at a port, and so have other moves made within its
// own, a crash among them. It would catch a call that is gone on with while it runs, or broken off.
func TestPointAndPort(t *testing.T) {
	for crashes := range 2 {
		sim.Exhaustive(t, func(s *sim.Sim) {
			s.Inject(sim.Faults{Crashes: crashes})
			at := dataflow.At[Server](s.Flow())
			in, requests := keyedsingleton.Input[int, int](at, "requests")
			asked, questions := keyedsingleton.Input[int, int](at, "questions")
			told := keyedsingleton.Output(keyedsingleton.Map(questions, func(x int) int { return 10 * x }), "told")
			answers := keyedsingleton.Output(keyedsingleton.MapAsync(requests, func(ctx context.Context, x int) int {
				sim.Point(ctx, "before the question")
				if err := asked.Put(ctx, x, x); err != nil && !errors.Is(err, dataflow.ErrDuplicateKey) {
					s.Errorf("the question: %v", err)
				}
				answer, err := told.Await(ctx, x)
				s.Check(err)
				return answer
			}, keyedsingleton.AsyncOptions{}), "answers")
			s.Start()
			for x := range 2 {
				s.Check(in.Put(s.Context(), x, x))
			}
			s.Quiesce()
			for x := range 2 {
				if got, ok := answers.Get(x); !ok || got != 10*x {
					s.Errorf("the answer to %d is %d, %v", x, got, ok)
				}
			}
		})
	}
}

// TestPointCrashes: a location that crashes while a call is at a point makes it anew, and its answer counts
// once. It would catch a call that goes on after the crash, and one that a crash does not touch.
func TestPointCrashes(t *testing.T) {
	seen := make(map[string]bool)
	sim.Exhaustive(t, func(s *sim.Sim) {
		s.Inject(sim.Faults{Crashes: 1})
		read, wrote := 0, 0
		in, requests := keyedsingleton.Input[int, int](dataflow.At[Server](s.Flow()), "requests")
		answers := keyedsingleton.Output(keyedsingleton.MapAsync(requests, func(ctx context.Context, x int) int {
			read++
			sim.Point(ctx, "between read and write")
			wrote++
			return wrote
		}, keyedsingleton.AsyncOptions{}), "answers")
		s.Start()
		s.Check(in.Put(s.Context(), 1, 1))
		s.Quiesce()
		answer, ok := answers.Get(1)
		shown := fmt.Sprint(read, wrote, answer, ok)
		seen[shown] = true
		s.Observe(shown)
	})
	want := []string{"1 1 1 true", "2 1 1 true", "2 2 2 true"}
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, want) {
		t.Errorf("calls read, wrote and answered %q, want %q", got, want)
	}
}

// TestPointOfClients: clients that share a variable can be split as calls can.
func TestPointOfClients(t *testing.T) {
	seen := make(map[int]bool)
	type ports struct{ stored *int }
	add := func(c *sim.Ctx, p ports) error {
		sim.Point(c, "before the read")
		was := *p.stored
		sim.Point(c, "between read and write")
		*p.stored = was + 1
		return nil
	}
	_, err := sim.Check(context.Background(), sim.Spec[ports]{
		Build: func(f *dataflow.Flow) ports {
			_, in := dataflow.Input[int](dataflow.At[Server](f), "in")
			dataflow.ForEach(in, func(int) {})
			return ports{new(int)}
		},
		Clients: []sim.Client[ports]{{Name: "ann", Do: add}, {Name: "bob", Do: add}},
		Eventually: map[string]func(*sim.View, ports) error{"added": func(_ *sim.View, p ports) error {
			seen[*p.stored] = true
			return nil
		}},
	}, sim.Workers(1))
	if got := slices.Sorted(maps.Keys(seen)); err != nil || !slices.Equal(got, []int{1, 2}) {
		t.Errorf("clients stored %v: %v", got, err)
	}
}

// TestPointOutside: in code that is not simulated a point is nothing.
func TestPointOutside(t *testing.T) {
	sim.Point(context.Background(), "nowhere")
}
