package sim

import (
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/rerun"
)

var (
	replayFlag = flag.String("sim.replay", "", "run only the schedule with these `choices`, as printed by a failure")
	limitFlag  = flag.Int("sim.limit", 1_000_000, "how many executions sim.Exhaustive may take")
	fileFlag   = flag.String("sim.checkpoint", "", "`file` to which an unfinished search is saved every 10 s and at its limit, and from which it goes on")
	workFlag   = flag.Int("sim.workers", 0, "how many `executions` are made at the same time; with more than one, several goroutines call the function")
)

func ends(err error) bool { return errors.Is(err, io.EOF) }

// Exhaustive calls f once for each schedule and returns the number of schedules. In each
// schedule at most one record of the retried inputs comes twice. Exhaustive fails t with
// the first schedule that fails. It also fails t if there are more than -sim.limit
// executions, since it has shown nothing then.
func Exhaustive(t testing.TB, f func(*Sim)) (schedules int) {
	engine.Given("sim.Exhaustive", f)
	t.Helper()
	schedules, executions := explore(t, subject{ctx: t.Context(), f: f}, false)
	t.Logf("sim: %d schedules in %d executions", schedules, executions)
	return schedules
}

// explore explores all schedules and fails t with what it found. If whole is set, nothing
// is reduced: the schedules are the same, in more executions.
func explore(t testing.TB, x subject, whole bool) (schedules, executions int) {
	t.Helper()
	if replayed(t, x) {
		return 0, 1
	}
	found := x.explore(whole, *limitFlag)
	switch {
	case found.err != nil:
		t.Fatalf("sim: %v", found.err)
	case found.failed != nil:
		explain(t, x.shortest(*found.failed), x)
		t.FailNow()
	case found.unsteady != "":
		t.Fatalf("sim: %s: the function depends on something besides its choices, such as the order of a map, the time, or state that outlives a schedule\nchoices so far: %s", found.unsteady, found.trace)
	case !found.complete:
		t.Fatalf("sim: more than %d executions (%d schedules so far): nothing is shown; make the program smaller, use Random, or raise -sim.limit", found.executions, found.schedules)
	}
	found.outs.check(t)
	return found.schedules, found.executions
}

// An exploration is the result of exploring the schedules of a subject.
type exploration struct {
	complete   bool // every schedule was covered
	schedules  int
	executions int
	failed     *execution // the first that failed, or nil
	err        error      // of a checkpoint that cannot be read or written
	unsteady   string     // how a schedule differed when it was run again
	trace      string     // of the unsteady schedule
	misfit     bool       // the only schedule, which was given, has made other choices
	outs       outputs
}

// explore runs schedules until all are covered, one fails, or limit executions were made.
// It calls the function one schedule at a time unless -sim.workers says otherwise.
func (x subject) explore(whole bool, limit int) exploration {
	return x.search(searchOptions{whole: whole, limit: limit, workers: workersOr(1), checkpoint: *fileFlag})
}

// workersOr returns the value of -sim.workers, or n if the flag is not set.
func workersOr(n int) int {
	if *workFlag > 0 {
		return *workFlag
	}
	return n
}

// Random calls f for n randomly chosen schedules and returns how many of them were
// different. Each call of Random chooses the same schedules.
func Random(t testing.TB, n int, f func(*Sim)) (schedules int) {
	engine.Given("sim.Random", f)
	t.Helper()
	x := subject{ctx: t.Context(), f: f}
	if replayed(t, x) {
		return 0
	}
	distinct := make(map[uint64]bool)
	var all outputs
	for seed := range n {
		c := &random{rng: rand.New(rand.NewPCG(0, uint64(seed)))}
		run := x.execute(c, nil)
		if run.failed {
			explain(t, x.shortest(run), x)
			t.FailNow()
		}
		all.add(run)
		distinct[run.shown] = true
	}
	all.check(t)
	return len(distinct)
}

// Fuzz calls f with schedules that the fuzzer chooses: go test -fuzz looks for new ones,
// and go test tries those that it has kept. With -sim.replay, only that schedule is run.
func Fuzz(fz *testing.F, f func(*Sim)) {
	engine.Given("sim.Fuzz", f)
	fz.Add([]byte{})
	fz.Add([]byte{1, 1, 1, 1, 1, 1, 1, 1})
	fz.Fuzz(func(t *testing.T, data []byte) {
		x := subject{ctx: t.Context(), f: f}
		if replayed(t, x) {
			return
		}
		if run := x.execute(&fuzzed{data: data}, nil); run.failed {
			explain(t, x.shortest(run), x)
		}
	})
}

// Replay calls f with the schedule that a failure has printed, and prints the choices of
// the schedule.
func Replay(t testing.TB, choices string, f func(*Sim)) {
	engine.Given("sim.Replay", f)
	t.Helper()
	subject{ctx: t.Context(), f: f}.replay(t, choices)
}

// replay runs one schedule and prints its choices.
func (x subject) replay(t testing.TB, choices string) {
	t.Helper()
	c, err := scriptOf(choices)
	if err != nil {
		t.Fatalf("sim: %v", err)
	}
	run := x.execute(c, &printout{})
	if !c.fits(run) {
		t.Logf("sim: %s", misfit)
	}
	t.Logf("sim: the schedule %s\n%s", run.trace, run.story())
	if run.failed {
		t.Fail()
	}
}

// Rerun calls f with the schedule of a production run that was recorded with
// [dataflow.Options].Record. Nothing is sent: the recording holds the input, the answers of
// asynchronous calls, and the times at which timers fired. The flow that f builds must be
// the recorded one.
func Rerun(t testing.TB, recording *dataflow.Recording, f func(*Sim)) {
	engine.Given("sim.Rerun", f)
	t.Helper()
	run := subject{ctx: t.Context(), f: f}.executeOn(new(script), &printout{}, recording)
	if run.failed {
		t.Errorf("sim: the recorded run\n%s", run.story())
	}
}

// replayed runs the schedule of -sim.replay and reports whether there is one.
func replayed(t testing.TB, x subject) bool {
	t.Helper()
	if *replayFlag == "" {
		return false
	}
	x.replay(t, *replayFlag)
	return true
}

// explain runs a failed schedule again and prints its choices.
func explain(t testing.TB, failed execution, x subject) {
	t.Helper()
	c, err := scriptOf(failed.trace)
	if err != nil {
		t.Fatalf("sim: %v", err)
	}
	again := x.execute(c, &printout{})
	t.Errorf("sim: a schedule fails\n%s\nrerun: %s", again.story(), rerun.Line(t.Name(), "-sim.replay", failed.trace))
	if !again.failed {
		t.Errorf("sim: run again, it does not fail: %s\nthe function depends on something besides its choices", strings.Join(failed.log, "\n"))
	}
}
