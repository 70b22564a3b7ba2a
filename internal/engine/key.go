package engine

import (
	"fmt"

	"github.com/millrace/millrace/internal/keyed"
)

// ErrUnhashable is why a value cannot be a key that cannot be hashed.
var ErrUnhashable = keyed.ErrUnhashable

// A BadKey says that a value cannot be a key. Whoever gave it to a port gets it as an
// error; an operator whose function made it panics with it, which ends the flow.
type BadKey struct {
	Op  *Op
	Key any
	Why error
}

// badKey returns the error for a value that was given to op, in the public words.
func (op *Op) badKey(k any, why error) error {
	return op.site.g.set.BadKey(&BadKey{op, k, why})
}

// madeKeys returns a function that checks the keys that a function of op made: it panics at
// the first that can be none. It is nil if all values of K can be keys.
func madeKeys[K comparable](op *Op) func([]K) {
	check := keyed.CheckOf[K]()
	if check == nil {
		return nil
	}
	return func(ks []K) {
		for _, k := range ks {
			if err := check(k); err != nil {
				op.enter()
				panic(op.badKey(k, err))
			}
		}
	}
}

// checkMade is a check of madeKeys for one key.
func checkMade[K comparable](check func([]K), k K) { check([]K{k}) }

// survives reports why an entry of a history that is kept outside is not found under k,
// or nil: k has to come back from its encoding as it was.
func survives[K comparable](c Codec, k K, encoded []byte) error {
	var back K
	if err := c.Decode(encoded, &back); err != nil {
		return fmt.Errorf("it cannot be decoded: %w", err)
	}
	if back != k {
		return fmt.Errorf("it is not equal to what comes back from its encoding, %v, so nothing is ever found under it", back)
	}
	return nil
}
