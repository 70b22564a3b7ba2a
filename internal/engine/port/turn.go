package port

import "context"

// An input whose stream has an order takes sends that happen one after another. No type can
// say that of a goroutine, so each such send begins with a plain write that is not
// synchronized with anything: to turns of an [Input], to the counter of the key of a [KeyedInput].
// Two sends that nothing orders are a data race there, which the race detector reports with
// both places. The write comes before the run token is taken, since the token's atomic
// operations would order the two and hide the race.
//
// For a keyed input that needs a counter for each key, so it is done in builds for the race
// detector only.

// Turn begins a send, of an input with one sender.
func (in *Input[T]) Turn() { in.turns++ }

// SendInTurn is Turn and Send. The turn is not synchronized, and comes before all that is.
func (in *Input[T]) SendInTurn(ctx context.Context, x T) error {
	in.turns++
	return in.Send(ctx, x)
}

// SendInTurn is Turn and Send.
func (in *KeyedInput[K, V]) SendInTurn(ctx context.Context, k K, v V) error {
	in.Turn(k)
	return in.Send(ctx, k, v)
}

// Turn begins a send of k, of an input with one sender for each key.
func (in *KeyedInput[K, V]) Turn(k K) {
	if !counted {
		return
	}
	if in.IsKey(k) { // what cannot be a key is refused by Send
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
func (in *KeyedInput[K, V]) IsKey(k K) bool { return in.check == nil || in.check(k) == nil }
