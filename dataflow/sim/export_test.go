package sim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace/millrace/dataflow"
)

// Explore is Exhaustive with the number of executions, reduced or not.
func Explore(t *testing.T, f func(*Sim), whole bool) (schedules, executions int) {
	return explore(t, f, whole)
}

// Fails runs f under all schedules and returns the story of the first that fails and
// its choices.
func Fails(t testing.TB, f func(*Sim)) (story, trace string) {
	all := newSearch(false)
	for {
		run := execute(t, all, f, nil)
		if !run.failed {
			all.compare(t, run, f)
		}
		if run.failed {
			c, err := scriptOf(run.trace)
			if err != nil {
				t.Fatal(err)
			}
			return execute(t, c, f, &printed{}).story(), run.trace
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
	for seed := range n {
		run := execute(t, &random{rng: rand.New(rand.NewPCG(0, uint64(seed)))}, f, nil)
		if !run.failed {
			continue
		}
		c, err := scriptOf(run.trace)
		if err != nil {
			t.Fatal(err)
		}
		again := execute(t, c, f, &printed{})
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
	run := executeOn(t, new(script), f, &printed{}, recording)
	if !run.failed {
		t.Error("the recorded run does not fail")
	}
	return run.story()
}

// Hangs returns what an exploration says of outputs that nobody reads.
func Hangs(t *testing.T, f func(*Sim)) (found []string) {
	all := newSearch(false)
	var outs outputs
	for more := true; more; more = all.next() {
		outs.add(execute(t, all, f, nil))
	}
	for _, err := range outs.hang() {
		found = append(found, err.Error())
	}
	return found
}
