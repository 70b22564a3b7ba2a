package sim

import (
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

// RerunFails returns the story of a recorded run that fails.
func RerunFails(t testing.TB, recording *dataflow.Recording, f func(*Sim)) string {
	run := executeOn(t, new(script), f, &printed{}, recording, false)
	if !run.failed {
		t.Error("the recorded run does not fail")
	}
	return run.story()
}
