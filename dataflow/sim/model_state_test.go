package sim_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// TestStatesAreOfTheRunBefore has states whose next values are each other's values. Each must be
// the value of the previous run, whichever was built first. A state once took a value of the same
// run if it belonged to another state.
func TestStatesAreOfTheRunBefore(t *testing.T) {
	type step func(a, b dataflow.Singleton[int, inside, bounded]) (nextA, nextB dataflow.Singleton[int, inside, bounded])
	add := func(p dataflow.Pair[int, int]) int { return p.First + p.Second }
	tests := []struct {
		name  string
		step  step
		model func(a, b int) (int, int)
	}{
		{"they swap", func(a, b dataflow.Singleton[int, inside, bounded]) (_, _ dataflow.Singleton[int, inside, bounded]) {
			return b, a
		}, func(a, b int) (int, int) { return b, a }},
		{"the first follows the second", func(a, b dataflow.Singleton[int, inside, bounded]) (_, _ dataflow.Singleton[int, inside, bounded]) {
			return b, singleton.Map(singleton.Zip(a, b), add)
		}, func(a, b int) (int, int) { return b, a + b }},
		{"the second follows the first", func(a, b dataflow.Singleton[int, inside, bounded]) (_, _ dataflow.Singleton[int, inside, bounded]) {
			return singleton.Map(singleton.Zip(a, b), add), a
		}, func(a, b int) (int, int) { return a + b, a }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := sim.Exhaustive(t, func(s *sim.Sim) {
				b := bench{s, dataflow.At[Server](s.Flow())}
				tick := slice.At(b.at)
				x, keepX := slice.State(tick, 1)
				y, keepY := slice.State(tick, 2)
				nextX, nextY := test.step(x, y)
				keepX(nextX)
				keepY(nextY)
				size := dataflow.Count(slice.Batch(tick, b.stream("xs", 1, 2, 3), tried))
				out := emit(singleton.Zip(singleton.Zip(x, y), size))
				b.Start()
				var got, want []string
				wantX, wantY := 1, 2
				for _, p := range sim.Collect(s, out) {
					got = append(got, fmt.Sprint(p.First))
					want = append(want, fmt.Sprintf("(%d, %d)", wantX, wantY))
					wantX, wantY = test.model(wantX, wantY)
				}
				if !slices.Equal(got, want) {
					s.Errorf("the runs read %v, want %v", got, want)
				}
			})
			if n != 4 {
				t.Errorf("%d schedules, want 4", n)
			}
		})
	}
}
