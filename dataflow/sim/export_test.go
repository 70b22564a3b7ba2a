package sim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace/millrace/dataflow"
)

// Explore is Exhaustive with the number of executions, reduced or not.
func Explore(t *testing.T, f func(*Sim), whole bool) (schedules, executions int) {
	return explore(t, subject{ctx: t.Context(), f: f}, whole)
}

// Explored is what came of an exploration.
type Explored struct {
	Schedules, Executions int
	Failed                string // trace of the schedule that failed
}

// ExploreWith goes through all schedules with some workers.
func ExploreWith(t testing.TB, workers int, f func(*Sim)) Explored {
	found := subject{ctx: t.Context(), f: f}.search(searchOptions{limit: 1_000_000, workers: workers})
	switch {
	case found.failed != nil:
		return Explored{Failed: found.failed.trace}
	case !found.complete:
		t.Errorf("the search with %d workers is not complete: %s", workers, found.unsteady)
	}
	return Explored{Schedules: found.schedules, Executions: found.executions}
}

// ExploreAt is Explore at a level.
func ExploreAt(t testing.TB, level Level, f func(*Sim), whole bool) (schedules, executions int) {
	found := subject{ctx: t.Context(), f: f, level: level}.explore(whole, *limitFlag)
	switch {
	case found.failed != nil:
		t.Fatal(found.failed.story())
	case found.unsteady != "":
		t.Fatal(found.unsteady)
	case !found.complete:
		t.Fatalf("not complete after %d executions", found.executions)
	}
	return found.schedules, found.executions
}

// Fails runs f under all schedules and returns the story of the first that fails and
// its choices.
func Fails(t testing.TB, f func(*Sim)) (story, trace string) {
	x := subject{ctx: t.Context(), f: f}
	found := x.explore(false, 1_000_000)
	if found.failed == nil {
		return found.unsteady, found.trace
	}
	c, err := scriptOf(found.failed.trace)
	if err != nil {
		t.Fatal(err)
	}
	return x.execute(c, &printed{}).story(), found.failed.trace
}

// FailsAtRandom is Fails with the random schedule, of n, that fails with the longest story.
func FailsAtRandom(t testing.TB, n int, f func(*Sim)) (story, trace string) {
	x := subject{ctx: t.Context(), f: f}
	for seed := range n {
		run := x.execute(&random{rng: rand.New(rand.NewPCG(0, uint64(seed)))}, nil)
		if !run.failed {
			continue
		}
		c, err := scriptOf(run.trace)
		if err != nil {
			t.Fatal(err)
		}
		again := x.execute(c, &printed{})
		if !slices.Equal(again.log, run.log) {
			t.Errorf("%q the first time and %q again", run.log, again.log)
		}
		if s := again.story(); len(s) > len(story) {
			story, trace = s, run.trace
		}
	}
	return story, trace
}

// RerunFails returns the story of a recorded run that fails.
func RerunFails(t testing.TB, recording *dataflow.Recording, f func(*Sim)) string {
	run := subject{ctx: t.Context(), f: f}.executeOn(new(script), &printed{}, recording)
	if !run.failed {
		t.Error("the recorded run does not fail")
	}
	return run.story()
}

// Hangs returns what an exploration says of outputs that nobody reads.
func Hangs(t *testing.T, f func(*Sim)) (all []string) {
	found := subject{ctx: t.Context(), f: f}.explore(false, 1_000_000)
	for _, err := range found.outs.hang() {
		all = append(all, err.Error())
	}
	return all
}

// ContinueFails returns the story of what fails behind a recorded run.
func ContinueFails(t testing.TB, recording *dataflow.Recording, f func(*Sim)) string {
	run := subject{ctx: t.Context(), f: f, from: recording}.execute(&script{repeats: 1}, &printed{})
	if !run.failed {
		t.Error("nothing fails")
	}
	return run.story()
}
