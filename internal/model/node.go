package model

import (
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/simulate"
	"github.com/millrace/millrace/internal/seal"
)

// graphOf returns the engine's graph of a flow; see package seal.
func graphOf(f *dataflow.Flow) *engine.Graph { return *seal.Pointer(f) }

// newLive returns a flow that runs as in production.
func newLive() *dataflow.Flow {
	f := dataflow.New()
	graphOf(f).Check(nil)
	return f
}

// newSimulated returns a flow that is simulated, and the simulation that makes its
// steps.
func newSimulated(choose simulate.Chooser) (*dataflow.Flow, *simulate.Simulation) {
	f := newLive()
	return f, simulate.Drive(graphOf(f), choose, nil, simulate.Known{})
}

// historyOf returns the engine's form of a recording.
func historyOf(r *dataflow.Recording) *engine.Recording { return seal.Pointer(r) }
