package model

import (
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/simulate"
	"github.com/millrace/millrace/internal/seal"
)

// graphOf returns what a flow is to the engine; see package seal.
func graphOf(f *dataflow.Flow) *engine.Graph { return *seal.Pointer(f) }

// newLive returns a flow that runs as in production.
func newLive() *dataflow.Flow {
	f := dataflow.New()
	graphOf(f).Check(nil)
	return f
}

// newDriven returns a flow that is simulated, with what makes its steps.
func newDriven(choose simulate.Chooser) (*dataflow.Flow, *simulate.Simulation) {
	f := newLive()
	return f, simulate.Drive(graphOf(f), choose, nil, simulate.Known{})
}

// historyOf returns what a recording is to the engine.
func historyOf(r *dataflow.Recording) *engine.Recording { return seal.Pointer(r) }
