package durabletest

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/rerun"
)

// A Program is a durable flow and how to exercise it. All functions are called many times. What they keep in
// variables outlives a simulated crash, unlike in a real process.
type Program[P any] struct {
	// Build builds the flow, as for [durable.Start].
	Build func(*dataflow.Flow) P

	// Drive is the outside world: it sends, and may wait for outputs. It returns nil when everything it did was
	// acknowledged. If it returns an error because the process crashed, it is called again from the beginning
	// with the ports of the next process, like a producer that restarts: records that it sends with
	// SendNumbered, see [dataflow.InputPort], or with Put are taken once. An error without a crash fails the
	// test.
	Drive func(ctx context.Context, ports P) error

	// Check says what is wrong with the final state of the flow. It is called when Drive is done, the flow was
	// stopped, and a new process has restored it; and again if that process crashes. So it may read anything
	// but must not take entries. An error without a crash fails the test.
	Check func(ctx context.Context, ports P) error
}

// Options say how to test a program. The zero value crashes it once in each run.
type Options struct {
	// Durable are the options of the flow. Its Log and Client are ignored. Some zero values mean something else
	// here: three Partitions; SnapshotBytes and StepBytes of one byte, for a step for each record and a
	// snapshot for each step; a Digest of 1, for a digest of each step that is made while no snapshot is
	// written; and a Logger that discards.
	Durable durable.Options

	// LostAnswers adds for each action a run in which the action is done but its answer is lost, as when a
	// connection breaks: a Send fails although its record is stored.
	LostAnswers bool

	// ReadAhead makes the log show records to the flow before they are durable, as package disklog does; a
	// crash loses the records that no committed step has taken. Without it a record is durable before its step
	// begins.
	ReadAhead bool

	// Again adds, for each first crash, this many runs with a second crash, one to Again moments later. A
	// restart consists of a few actions and has to survive a crash, too. Zero adds none.
	Again int

	// Within bounds each call of Drive and Check, in the time of the synctest bubble. Zero means an hour.
	Within time.Duration
}

func (o Options) withDefaults() Options {
	o.Durable.Partitions = cmp.Or(o.Durable.Partitions, 3)
	o.Durable.SnapshotBytes = cmp.Or(o.Durable.SnapshotBytes, 1)
	o.Durable.StepBytes = cmp.Or(o.Durable.StepBytes, 1)
	o.Durable.Digest = cmp.Or(o.Durable.Digest, 1)
	o.Durable.Client = false
	if o.Durable.Logger == nil {
		o.Durable.Logger = slog.New(slog.DiscardHandler)
	}
	o.Within = cmp.Or(o.Within, time.Hour)
	return o
}

var atFlag = flag.String("durabletest.at", "", "run durabletest.Crash only with these `faults`, as printed by a failure")

// Crash runs a program once without a crash, and then once for each moment at which a crash makes a difference:
// before and after each durable action of the first run. The first run that goes wrong fails the test, with the
// moment and a command line that runs only that moment.
//
// Crash returns the number of runs. The number is the same every time if the program has one partition and no
// concurrency of its own; several partitions act at the same time. Drive and Check must do the same in each
// run, since otherwise a moment means something else each time; code that ranges over a map does not.
//
// Call it outside of a synctest bubble.
func Crash[P any](t *testing.T, p Program[P], opts Options) (runs int) {
	t.Helper()
	runs, wrong := explore(t, p, opts, *atFlag)
	if wrong != nil {
		t.Errorf("durabletest: %s\nrerun: %s", wrong.story(), rerun.Line(t.Name(), "-durabletest.at", fmt.Sprint(wrong.plan)))
	}
	return runs
}

// explore makes all runs, or only that of the plan only, until one goes wrong.
func explore[P any](t *testing.T, p Program[P], opts Options, only string) (runs int, wrong *failure) {
	opts = opts.withDefaults()
	once := func(faults plan) []journal.Action {
		runs++
		r := &run[P]{program: p, opts: opts, plan: faults}
		synctest.Test(t, func(*testing.T) { r.run() })
		if r.err != nil {
			wrong = &failure{faults, r.happened, r.phase, r.err}
		}
		return r.actions
	}
	if only != "" {
		faults, err := parsePlan(only)
		if err != nil {
			return 0, &failure{err: err, phase: "the flag -durabletest.at"}
		}
		once(faults)
		return runs, wrong
	}
	var plans []plan
	for i, action := range once(plan{}) {
		plans = append(plans, plan{at: []int{i + 1}})
		if opts.LostAnswers && action.Done {
			plans = append(plans, plan{lost: true, at: []int{i + 1}})
		}
		for after := range opts.Again {
			plans = append(plans, plan{at: []int{i + 1, i + 2 + after}})
		}
	}
	for _, faults := range plans {
		if wrong != nil {
			break
		}
		once(faults)
	}
	return runs, wrong
}

// partitions returns the number of partitions of a flow.
func partitions[P any](build func(*dataflow.Flow) P, o durable.Options) int {
	codec := o.Codec
	if codec == nil {
		codec = durable.CBOR()
	}
	flow, g := newLogDriven(o, codec)
	build(flow)
	n := 0
	for i := range g.NumLocations() {
		if g.Divided(i) {
			n += o.Partitions
		} else {
			n++
		}
	}
	return max(n, 1) // durable.Start reports what is wrong with a flow that has none
}

// A failure is a run that went wrong.
type failure struct {
	plan     plan
	happened []string // the faults
	phase    string
	err      error
}

func (f *failure) story() string {
	when := cmp.Or(strings.Join(f.happened, ", then "), "without a crash")
	return fmt.Sprintf("%s: %s: %v", when, f.phase, f.err)
}
