package sim

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
)

// Explore explores f like Exhaustive and returns the number of executions too, without the
// reduction if whole is set.
func Explore(t *testing.T, f func(*Sim), whole bool) (schedules, executions int) {
	return explore(t, subject{ctx: t.Context(), f: f}, whole)
}

// Exploring configures an exploration.
type Exploring struct {
	Whole          bool
	Workers, Limit int // default 1 and a million
	Checkpoint     string
}

// Explored is the result of an exploration.
type Explored struct {
	Schedules, Executions int
	Complete              bool
	Failed                string // trace and log of the failed schedule, or the error of the search
}

// ExploreAs goes through all schedules.
func ExploreAs(t testing.TB, how Exploring, f func(*Sim)) Explored {
	t.Helper()
	found := subject{ctx: t.Context(), f: f}.search(searchOptions{whole: how.Whole, limit: cmp.Or(how.Limit, 1_000_000), workers: max(how.Workers, 1), checkpoint: how.Checkpoint})
	if found.err != nil {
		return Explored{Failed: found.err.Error()}
	}
	if found.unsteady != "" {
		t.Errorf("%s: %s", found.unsteady, found.trace)
	}
	if found.failed != nil {
		return Explored{Failed: fmt.Sprint(found.failed.trace, ": ", found.failed.log)}
	}
	return Explored{Schedules: found.schedules, Executions: found.executions, Complete: found.complete}
}

// SpoilCheckpoint changes a checkpoint to be from another executable.
func SpoilCheckpoint(t testing.TB, path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	own, err := program()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(data, []byte(own)) {
		t.Fatal("the checkpoint does not say whose it is")
	}
	data = bytes.Replace(data, []byte(own), []byte(strings.Repeat("0", len(own))), 1)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Sampled is the result of schedules chosen by priorities.
type Sampled struct {
	Schedules, Processes, Moves, Found int
	Chance, Missed                     float64
}

// Sample runs f under schedules chosen by priorities.
func Sample(t testing.TB, runs, depth int, f func(*Sim)) Sampled {
	found, b := subject{ctx: t.Context(), f: f}.prioritized(runs, depth, 1)
	if found.failed != nil || found.executions != runs {
		t.Errorf("%d of %d runs: %v", found.executions, runs, found.failed)
	}
	return Sampled{Schedules: found.schedules, Processes: b.processes, Moves: b.moves, Chance: b.chance(), Missed: b.missed()}
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

// Fails runs f under all schedules and returns the story and the choices of the first that fails.
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
	return x.execute(c, &printout{}).story(), found.failed.trace
}

// FailsAtRandom is Fails with n random schedules. It returns the longest story of those that fail.
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
		again := x.execute(c, &printout{})
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
	run := subject{ctx: t.Context(), f: f}.executeOn(new(script), &printout{}, recording)
	if !run.failed {
		t.Error("the recorded run does not fail")
	}
	return run.story()
}

// Hangs returns the errors of an exploration about outputs that nobody reads.
func Hangs(t *testing.T, f func(*Sim)) (all []string) {
	found := subject{ctx: t.Context(), f: f}.explore(false, 1_000_000)
	for _, err := range found.outs.hang() {
		all = append(all, err.Error())
	}
	return all
}

// ContinueFails returns the story of a failure after a recorded run.
func ContinueFails(t testing.TB, recording *dataflow.Recording, f func(*Sim)) string {
	run := subject{ctx: t.Context(), f: f, from: recording}.execute(&script{repeats: 1}, &printout{})
	if !run.failed {
		t.Error("nothing fails")
	}
	return run.story()
}

// Unreduced is an option that turns the reduction off.
func Unreduced() Option { return Option{func(o *options) { o.whole = true }} }

// Shorten returns the trace of the shortest failing schedule, given one that fails. It reports
// false if one of the two does not fail when run again. It runs the shortest one last.
func Shorten(t testing.TB, trace string, f func(*Sim)) (short string, ok bool) {
	x := subject{ctx: t.Context(), f: f}
	again := func(trace string) execution {
		c, err := scriptOf(trace)
		if err != nil {
			t.Fatal(err)
		}
		return x.execute(c, nil)
	}
	run := again(trace)
	if !run.failed {
		return "", false
	}
	short = x.shortest(run).trace
	return short, again(short).failed
}
