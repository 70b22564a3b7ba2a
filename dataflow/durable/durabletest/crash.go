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

// A Program is a durable flow and what is done with it. All functions are called many
// times: what they keep in variables outlives a crash here, as it would not in a process.
type Program[P any] struct {
	// Build builds the flow, as for [durable.Start].
	Build func(*dataflow.Flow) P

	// Drive is the outside world: it sends, and may wait for outputs. It returns nil when
	// everything it did was acknowledged. If it returns an error because the process
	// crashed, it is called again from the beginning with the ports of the next process,
	// as a producer that starts again: with SendNumbered, see [dataflow.InputPort], or Put
	// its records are taken once. An error without a crash fails the test.
	Drive func(ctx context.Context, ports P) error

	// Check says what is wrong with what the flow has in the end. It is called when Drive
	// is done, the flow was stopped, and a new process has restored it; and again, if that
	// one crashes. So it may read what it likes but must not take entries. An error
	// without a crash fails the test.
	Check func(ctx context.Context, ports P) error
}

// Options say how a program is tried. The zero value crashes it once in each run.
type Options struct {
	// Durable are the options of the flow. Where the history is kept is not looked at.
	// Zero means here: three Partitions; with SnapshotBytes and StepBytes of one byte, a
	// step for each record, a snapshot for each step, and a digest of each that is made while no
	// snapshot is written; and a Logger that discards.
	Durable durable.Options

	// LostAnswers adds for each action a run in which it is done but its answer is lost,
	// as when a connection breaks: a Send fails whose record is kept.
	LostAnswers bool

	// ReadAhead has the log show records to the flow before they are durable, as package disklog
	// does: those of which no step is committed are lost in a crash. Without it a record is durable
	// before its step begins.
	ReadAhead bool

	// Again adds for each first crash so many runs with a second one: one, two and so on
	// up to Again moments after it. A restart is a few actions long, and has to survive a
	// crash, too. Zero adds none.
	Again int

	// Within bounds each call of Drive and Check, in the bubble's time. Zero means an hour.
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

// Crash runs a program once without a crash, and then once for each moment at which a
// crash makes a difference: before and after each durable action of the first run. It
// returns how many runs there were, which is the same every time if the program has one
// partition and no concurrency of its own: partitions act at the same time. Drive and Check do the
// same in each run, or a moment is another one each time; what ranges over a map does not. The first
// run that goes wrong fails the test, with the moment and a line that runs only that one.
//
// It has to be called outside of a bubble.
func Crash[P any](t *testing.T, p Program[P], opts Options) (runs int) {
	t.Helper()
	runs, wrong := explore(t, p, opts, *atFlag)
	if wrong != nil {
		t.Errorf("durabletest: %s\nrerun: %s", wrong.story(), rerun.Line(t.Name(), "-durabletest.at", fmt.Sprint(wrong.plan)))
	}
	return runs
}

// explore makes all runs, or only that of a plan, until one goes wrong.
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

// partitions returns in how many parts the locations of a flow are divided.
func partitions[P any](build func(*dataflow.Flow) P, o durable.Options) int {
	codec := o.Codec
	if codec == nil {
		codec = durable.CBOR()
	}
	flow, g := newLed(o, codec)
	build(flow)
	n := 0
	for i := range g.NumLocations() {
		if g.Divided(i) {
			n += o.Partitions
		} else {
			n++
		}
	}
	return max(n, 1) // or durable.Start says what is wrong
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
