package dataflow

import "github.com/millrace/millrace/internal/engine/simulate"

// NewChosen returns a flow whose choices are made by c.
func NewChosen(c simulate.Chooser) *Flow {
	f := New()
	simulate.Drive(graphOf(f), c, nil, simulate.Known{})
	return f
}
