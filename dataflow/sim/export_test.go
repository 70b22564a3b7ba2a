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
	walk := new(walk)
	for {
		run := execute(t, walk, f, nil)
		if !run.failed {
			walk.compare(run, execute(t, walk, f, nil))
		}
		if run.failed {
			c, err := scriptOf(run.trace)
			if err != nil {
				t.Fatal(err)
			}
			return execute(t, c, f, &printed{}).story(), run.trace
		}
		if walk.unsteady != "" {
			return walk.unsteady, walk.trace()
		}
		if !walk.next() {
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
	run := executeOn(t, new(script), f, &printed{}, recording, false)
	if !run.failed {
		t.Error("the recorded run does not fail")
	}
	return run.story()
}

// Hangs returns what an exploration says of outputs that nobody reads.
func Hangs(t *testing.T, f func(*Sim)) (all []string) {
	walk := new(walk)
	var outs outputs
	for more := true; more; more = walk.next() {
		outs.add(execute(t, walk, f, nil))
	}
	for _, err := range outs.hang() {
		all = append(all, err.Error())
	}
	return all
}
