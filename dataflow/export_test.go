package dataflow

import "github.com/millrace/millrace/internal/engine"

// NewChosen returns a flow whose choices are made by c.
func NewChosen(c engine.Chooser) *Flow {
	f := New()
	graphOf(f).Simulate(c, nil, false)
	return f
}
