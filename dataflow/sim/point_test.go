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

// adding has calls for n keys add 1 each to a stored number, in two steps if split is set.
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

// TestPoint checks that two calls that read and write a store lose a write if other calls run between the
// two, and lose none if calls run one at a time. It catches a split call that is a single move, and a call
// that starts although the maximum number of calls is at a point.
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

// TestPointFails checks that the story shows a lost write move by move, that its choices reproduce it, and
// that it is shortened.
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

// TestPointAndPort checks that a call that passed a point may wait at a port, so that other moves, including
// a crash, run within its own move. It catches a call that is resumed while it runs, or is interrupted.
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

// TestPointCrashes checks that a call at a point is made again after a crash of its location, and that its
// answer counts once. It catches a call that continues after the crash, and one that the crash does not affect.
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

// TestPointOfClients checks that clients that share a variable can be split as calls can.
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

// TestPointOutside checks that a point has no effect in code that is not simulated.
func TestPointOutside(t *testing.T) {
	sim.Point(context.Background(), "nowhere")
}
