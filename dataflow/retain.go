package dataflow

import (
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

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

// A Sequence says how keys are remembered: those that an input has accepted, which takes each of
// them once, or those that an operator is done with. It never changes what they do. The zero
// Sequence keeps each key. It is made by [Sequenced].
type Sequence[K comparable] sequence[K]

// Sequenced returns a [Sequence] for keys that clients count: number returns the
// client of a key and the key's number there. Instead of keys, their numbers are
// remembered, exactly and for ever: numbers without a gap cost nothing, others a bit
// each, or up to a word where they are far apart. Each client costs some 50 bytes.
//
// Different keys must have different numbers, or the one that comes second is taken
// for a repeat of the other: it is ignored, or refused. Numbers may start anywhere, come in any
// order and leave gaps. The function must be pure; it is called more than once for a
// key. An input refuses a key on which it panics, with a [*KeyError]. It takes O(1) for each value.
func Sequenced[K, C comparable](number func(K) (client C, seq uint64)) Sequence[K] {
	engine.Given("dataflow.Sequenced", number)
	return Sequence[K](newSequence(operators.Sequenced(number)))
}
