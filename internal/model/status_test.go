package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// TestStatusCounts runs random programs with Count and compares the status after each step
// with the events: how many records each input took, and how often each slice ran. It catches
// a step that is not counted, and a status that is copied in the middle of a step.
func TestStatusCounts(t *testing.T) {
	for way := range ways {
		t.Run(way.String(), func(t *testing.T) {
			// These operators add a slice of their own.
			drawn := slices.DeleteFunc(drawnIn(way), func(op operator) bool { return op.name == "slice.EmitRetained" || op.name == "keyedsingleton.Changes" })
			checkAll(t, drawn, func(p *Program, h History, seed uint64) error { return counts(p, h, way, seed) })
		})
	}
}

func counts(p *Program, h History, way Way, seed uint64) (err error) {
	rng := rand.New(rand.NewPCG(seed, uint64(way)))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	flow := dataflow.NewWithOptions(dataflow.Options{Count: true})
	var steps *simulate.Simulation
	if way == Simulated || way == Whole {
		steps = simulate.Drive(graphOf(flow), chooser{rng}, nil, simulate.Known{})
	}
	if way == Batched {
		graphOf(flow).PushBatches()
	}
	b := build(ctx, p, flow, func(int) bool { return true })
	check := func(bool) error { return b.counted(&graphOf(flow).Status()[0]) }
	if steps != nil {
		return b.drive(flow, steps, h, rng, check)
	}
	return b.live(flow, h, rng, way == Single || way == Batched, check)
}

// counted compares a status with the events.
func (b *builder) counted(s *engine.Status) error {
	if s.Stale {
		return fmt.Errorf("stale, although nothing runs")
	}
	took, runs := make(map[string]uint64), make(map[int]uint64)
	for _, ev := range b.events {
		if ev.slice >= 0 {
			runs[ev.slice]++
		} else {
			took[fmt.Sprint("n", ev.node)]++
		}
	}
	for i, r := range s.Slices {
		if r.Runs != runs[i] {
			return fmt.Errorf("slice %d ran %d times, the status says %d", i, runs[i], r.Runs)
		}
	}
	inputs := make(map[string]bool)
	for i := range b.p.nodes {
		inputs[fmt.Sprint("n", i)] = b.p.nodes[i].op.edge == input
	}
	for _, op := range s.Ops {
		if _, port, _ := strings.Cut(op.Op.Name, " "); inputs[port] && op.Entered != took[port] {
			return fmt.Errorf("%s took %d records, the status says %d", op.Op, took[port], op.Entered)
		}
	}
	return nil
}
