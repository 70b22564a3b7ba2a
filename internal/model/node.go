package model

import (
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/seal"
)

// graphOf returns what a flow is to the engine; see package seal.
func graphOf(f *dataflow.Flow) *engine.Graph { return *seal.Pointer(f) }

// newDriven returns a flow that is driven through choices.
func newDriven(choose engine.Chooser, whole bool) *dataflow.Flow {
	f := dataflow.New()
	graphOf(f).Simulate(choose, nil, nil, whole)
	return f
}
