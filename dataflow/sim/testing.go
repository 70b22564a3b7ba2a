package sim

import (
	"errors"
	"testing"

	"github.com/millrace/millrace/internal/rerun"
)

// Test is [Check] for a test. If the error is not nil, it fails t with the counterexample as a
// chart and a command that runs only this schedule. Otherwise it logs the report. With
// -sim.replay, only that schedule is run.
//
// A failed schedule is saved in a file in the folder testdata/sim, whose name begins with the
// name of the test. The next Test of the same name runs the schedules of these files first, so
// each is a regression test. Nothing else is written there. If the program or the specification
// has changed, the choices in a file have another meaning, and a file whose schedule does not
// fail is of no use; the test's log says so. To get rid of a file, delete it.
func Test[P any](t testing.TB, s Spec[P], opts ...Option) *Report {
	t.Helper()
	if *replayFlag != "" {
		opts = append(opts, Trace(*replayFlag))
	}
	o, err := optionsOf(opts)
	if err != nil {
		t.Fatal(err)
	}
	p, err := planOf(s)
	if err != nil {
		t.Fatal(err)
	}
	if o.script == nil {
		p.rerunSaved(t)
	}
	report, err := check(t.Context(), p, o)
	var failure *Failure
	switch {
	case err == nil:
		t.Logf("sim: %v", report)
	case errors.As(err, &failure) && failure.Counterexample != nil:
		where := ""
		switch {
		case o.script == nil:
			where = "\n" + p.save(t, failure)
		case report.Why == misfit:
			where = "\nsim: " + misfit
		}
		t.Fatalf("%s%s", failure.story(t.Name()), where)
	default:
		t.Fatalf("%v\n%v", err, report)
	}
	return report
}

// story returns the message of a test about a failure.
func (f *Failure) story(test string) string {
	return f.Error() + "\n" + f.Counterexample.String() + "rerun: " + rerun.Line(test, "-sim.replay", f.Counterexample.Trace())
}
