package dataflow

import "github.com/millrace/millrace/internal/engine/simulate"

// NewChosen returns a flow in which c makes the scheduling choices.
func NewChosen(c simulate.Chooser) *Flow {
	f := New()
	simulate.Drive(graphOf(f), c, nil, simulate.Known{})
	return f
}
