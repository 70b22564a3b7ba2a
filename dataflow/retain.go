package dataflow

import "time"

// Retain says how long an operator or an input remembers a key that it is done with. Keys
// or For must be set; if both are, whichever forgets sooner counts.
type Retain struct {
	// Keys is the number of further keys for which one is remembered: until that many
	// others were completed at least, until twice as many were at most.
	Keys int
	// For is the time for which a key is remembered at least, by the location's clock;
	// twice that at most.
	For time.Duration
	// Open is the time for which a key that does not complete keeps its aggregate, counted
	// from its first value. A value that comes later begins a new one. Zero means for as long
	// as the flow runs. Only what aggregates the values of a key asks for it.
	Open time.Duration
}
