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

// Fails runs f under all schedules and returns the story of the first that fails and
// its choices.
func Fails(t testing.TB, f func(*Sim)) (story, trace string) {
	x := subject{ctx: t.Context(), f: f}
	all := newSearch(false)
	for {
		run := x.execute(all, nil)
		if !run.failed {
			all.compare(x, run)
		}
		if run.failed {
			c, err := scriptOf(run.trace)
			if err != nil {
				t.Fatal(err)
			}
			return x.execute(c, &printed{}).story(), run.trace
		}
		if all.unsteady != "" {
			return all.unsteady, run.trace
		}
		if !all.next() {
			return "", ""
		}
	}
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
func Hangs(t *testing.T, f func(*Sim)) (found []string) {
	x := subject{ctx: t.Context(), f: f}
	all := newSearch(false)
	var outs outputs
	for more := true; more; more = all.next() {
		outs.add(x.execute(all, nil))
	}
	for _, err := range outs.hang() {
		found = append(found, err.Error())
	}
	return found
}

// ContinueFails returns the story of what fails behind a recorded run.
func ContinueFails(t testing.TB, recording *dataflow.Recording, f func(*Sim)) string {
	run := subject{ctx: t.Context(), f: f, from: recording}.execute(newSearch(false), &printed{})
	if !run.failed {
		t.Error("nothing fails")
	}
	return run.story()
}
