package sim

import "github.com/millrace/millrace/internal/engine/simulate"

// A Level says how much can happen in a schedule. Every production run is one of the schedules at
// each level, and each schedule at Engine is one at Types.
type Level uint8

const (
	// Types is everything that the types of the program allow. A program that is correct at Types
	// stays correct with later versions of this module.
	Types Level = iota

	// Engine is what this version of the module can do. A location takes records in the order in
	// which it has accepted them. A step takes one or more of them, and ends with a cut of all
	// slices that have new input; its outputs then show the result all at once. Asynchronous
	// calls begin in the order in which they were requested, at most Concurrency at a time, and
	// their answers are accepted in the order in which the calls return.
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

// simulated converts the level to that of package simulate.
func (l Level) simulated() simulate.Level {
	if l == Engine {
		return simulate.Engine
	}
	return simulate.Types
}
