package window

import (
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/claims"
	"github.com/millrace/millrace/internal/engine/windows"
)

// Sessions folds the events of each key into sessions: an event less than gap apart from another
// one of its key is in the same session. The span of a session is from its first event until gap
// after its last one, and sessions of a key never overlap. If an event comes between two sessions
// and joins them, merge adds other to the earlier one.
//
// The proof says that step and merge give the same result for the same events in any order. A
// session is closed like a span of [Fold]; while it is open its key changes when it grows.
func Sessions[K comparable, V, A any, L dataflow.Location, O dataflow.Order, R dataflow.NoRetries](
	ks dataflow.KeyedStream[K, Event[V], L, bounds.Unbounded, O, R], gap time.Duration, init func() A, step func(*A, V), merge func(into *A, other A), why dataflow.Proof,
) (closed dataflow.KeyedSingleton[Key[K], A, L, bounds.BoundedValue], open dataflow.KeyedSingleton[Key[K], A, L, bounds.Unbounded]) {
	n, op := engine.ReadProved(engine.KeyedNodeOf(ks), "window.Sessions", why, init, step, merge)
	positive(op.Name, "gap", gap)
	engine.Permuted(&n.Head)
	checked, merged := claims.Sessions(op, init, step, merge)
	c, o := windows.Sessions(n, op, timeOf[V], int64(gap), init, func(acc *A, e *Event[V]) { checked(acc, e.Value) }, merged, keyOf[K])
	return newKeyedSingleton[Key[K], A, L, bounds.BoundedValue](c), newKeyedSingleton[Key[K], A, L, bounds.Unbounded](o)
}
