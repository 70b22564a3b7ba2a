package sim

import (
	"errors"
	"testing"

	"github.com/millrace/millrace/internal/rerun"
)

// Test is [Check] for a test. It fails t if the error is not nil, and else logs the report. With
// -sim.replay, only that schedule is run.
func Test[P any](t testing.TB, s Spec[P], opts ...Option) *Report {
	t.Helper()
	if *replayFlag != "" {
		opts = append(opts, Trace(*replayFlag))
	}
	report, err := Check(t.Context(), s, opts...)
	var failure *Failure
	switch {
	case err == nil:
		t.Logf("sim: %v", report)
	case errors.As(err, &failure) && failure.Counterexample != nil:
		t.Fatalf("%v\nrerun: %s", err, rerun.Line(t.Name(), "-sim.replay", failure.Counterexample.Trace()))
	default:
		t.Fatal(err)
	}
	return report
}
