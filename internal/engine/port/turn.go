package port

import (
	"context"

	"github.com/millrace/millrace/internal/engine"
)

// An ordered input requires that sends happen one after another. No type can express that about goroutines, so each such send
// begins with a plain, unsynchronized write: to turns of an [Input], or to the key's counter of a [KeyedInput]. Two sends that
// nothing orders are a data race on it, which the race detector reports with both places. The write comes before the run token is
// taken, because the token's atomic operations would order the two writes and hide the race.
//
// A keyed input needs a counter for each key, so it counts only in builds for the race detector.

// Turn begins a send to an input with one sender.
func (in *Input[T]) Turn() { in.turns++ }

// SendInTurn is Turn and Send. The turn is not synchronized and precedes everything that is.
//
// If the location is idle it makes the step itself: the two calls that this saves are a tenth of a send.
func (in *Input[T]) SendInTurn(ctx context.Context, x T) error {
	in.turns++
	if s := in.Loc; ctx != nil && !in.Shut.Load() && s.Token.Take() {
		if s.Planned() {
			return s.After(in.stepOne(x))
		}
		if ok := engine.StepOne(in.node, x); !ok || s.Left() {
			return s.Look(ok)
		}
		return nil
	}
	return in.Send(ctx, x)
}

// SendInTurn is Turn and Send.
func (in *KeyedInput[K, V]) SendInTurn(ctx context.Context, k K, v V) error {
	in.Turn(k)
	if s := in.Loc; in.check == nil && !in.once && !in.Shut.Load() && s.Token.Take() {
		if s.Planned() {
			return s.After(in.stepOne(k, v, 0))
		}
		if ok := engine.StepEntry(in.node, k, v, 0); !ok || s.Left() {
			return s.Look(ok)
		}
		return nil
	}
	return in.Send(ctx, k, v)
}

// Turn begins a send of k to an input with one sender for each key.
func (in *KeyedInput[K, V]) Turn(k K) {
	if !counted {
		return
	}
	if in.IsKey(k) { // Send refuses anything else
		in.turns.begin(k)
	}
}

// TurnAll begins a send of a batch.
func (in *KeyedInput[K, V]) TurnAll(ks []K) {
	if !counted {
		return
	}
	for _, k := range ks {
		in.Turn(k)
	}
}

// IsKey reports whether k can be a key of the input.
func (in *KeyedInput[K, V]) IsKey(k K) bool {
	if in.check == nil {
		return true
	}
	_, err := in.check(k)
	return err == nil
}
