package sim_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow/sim"
)

// TestMisfit runs schedules whose choices a changed program would not have. It catches a report that shows the schedule that ran as
// the one that was given.
func TestMisfit(t *testing.T) {
	spec := sim.Spec[counted]{
		Build: buildCounted, Clients: []sim.Client[counted]{puts("a", 1, 2), sends("b", 1)},
		Always: map[string]func(*sim.View, counted) error{"b is not first": func(v *sim.View, _ counted) error {
			if len(v.Ops("b")) > len(v.Ops("a")) {
				return errors.New("b is first")
			}
			return nil
		}},
	}
	_, err := sim.Check(t.Context(), spec)
	var failure *sim.Failure
	if !errors.As(err, &failure) {
		t.Fatalf("error %v, want a failure", err)
	}
	trace := failure.Counterexample.Trace()
	for given, fits := range map[string]bool{
		trace: true, trace + ".0.0": true, "0": true,
		trace + strings.Repeat(".0", 100) + ".1": false, // the schedule is over
		"1000000":                                false, // there are fewer possibilities
	} {
		report, _ := sim.Check(t.Context(), spec, sim.Trace(given))
		if said := strings.Contains(report.Why, "do not fit"); said == fits {
			t.Errorf("of %s the report says %q", given, report.Why)
		}
	}
}
