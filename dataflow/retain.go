package dataflow

import (
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// Retain says how long an operator or an input remembers a key that it is done with. Keys
// or For must be set. If both are, the one that forgets sooner counts.
type Retain struct {
	// Keys limits memory by the number of other keys: a key is remembered at least until
	// that many others were completed after it, and at most until twice as many were.
	Keys int
	// For is the minimum time for which a key is remembered, by the location's clock. The
	// maximum is twice that.
	For time.Duration
	// Open is the time for which a key that does not complete keeps its aggregate, counted
	// from its first value. A later value begins a new aggregate. Zero means for as long as
	// the flow runs. Only operators that aggregate the values of a key accept it.
	Open time.Duration
}

// A Sequence says how an operator or an input remembers keys: an input those that it has
// accepted, an operator those that it is done with. It never changes the result. The zero
// Sequence keeps each key. [Sequenced] makes one.
type Sequence[K comparable] sequence[K]

// Sequenced returns a [Sequence] for keys that clients count: number returns the client of
// a key and the key's number at that client. The numbers are remembered instead of the
// keys, exactly and forever. Numbers without a gap cost nothing, others a bit each, or up
// to a word where they are far apart. Each client costs some 50 bytes.
//
// Different keys must have different numbers. Otherwise the second is taken for a repeat of
// the first, and is ignored or refused. Numbers may start anywhere, come in any order and
// leave gaps. The function must be pure; it is called more than once for a key. If it
// panics on a key, an input refuses the key with a [*KeyError]. It takes O(1) for each
// value.
func Sequenced[K, C comparable](number func(K) (client C, seq uint64)) Sequence[K] {
	engine.Given("dataflow.Sequenced", number)
	return Sequence[K](newSequence(operators.Sequenced(number)))
}
