package sim_test

import (
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/slice"
)

// BenchmarkExhaustive explores a batch of 12 ordered elements: 2,048 executions.
func BenchmarkExhaustive(b *testing.B) {
	f := func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		run(b, emit(list(slice.Batch(slice.At(b.at), b.stream("xs", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), tried))))
	}
	n := 0
	for b.Loop() {
		n += sim.ExploreAs(b, sim.Exploring{}, f).Executions
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "executions/s")
}
