package sim_test

import (
	"testing"

	"github.com/millrace/millrace/dataflow/sim"
)

// TestZeroOption checks that the zero Option changes nothing.
func TestZeroOption(t *testing.T) {
	plain, err := sim.Check(t.Context(), tills)
	if err != nil {
		t.Fatal(err)
	}
	zero, err := sim.Check(t.Context(), tills, sim.Option{}, sim.Limit(10_000), sim.Option{})
	if err != nil {
		t.Fatal(err)
	}
	if zero.Schedules != plain.Schedules || zero.Executions != plain.Executions || !zero.Complete {
		t.Errorf("%v, and without options %v", zero, plain)
	}
}
