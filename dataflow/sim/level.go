package sim

import "github.com/millrace/millrace/internal/engine/simulate"

// A Level says how much can happen in a schedule. Whatever a production run does is one of the
// schedules at each level, and each schedule at Engine is one at Types.
type Level uint8

const (
	// Types is all that the types of the program allow. A program that is right at Types stays so
	// with a later version of this module.
	Types Level = iota

	// Engine is what this version of the module can do. A location takes records in the one order
	// in which it has accepted them. A step takes one or several of them, and ends with a cut of
	// all slices that have something new; its outputs show it then, all at once. Asynchronous
	// calls begin in the order in which they were asked for, as many at a time as Concurrency
	// says, and their answers are accepted in the order in which they return.
	Engine
)

// String returns the name of the level.
func (l Level) String() string {
	switch l {
	case Types:
		return "types"
	case Engine:
		return "engine"
	}
	return "unknown level"
}

// simulated returns the level for a simulation.
func (l Level) simulated() simulate.Level {
	if l == Engine {
		return simulate.Engine
	}
	return simulate.Types
}
