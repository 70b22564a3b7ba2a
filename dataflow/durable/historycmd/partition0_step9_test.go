package historycmd_test

import (
	"testing"

	"github.com/millrace/millrace/dataflow/sim"
)

// The steps of partition 0, of location bank, up to step 9.
func TestPartition0Step9(t *testing.T) {
	sim.RerunFile(t, "testdata/partition0_step9.mrh", func(s *sim.Sim) {
		build(s.Flow())
		s.Start()
		s.Quiesce()
	})
}
