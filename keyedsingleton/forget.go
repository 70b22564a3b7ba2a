package keyedsingleton

import (
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// ForgetAfter returns the entries of ks and removes an entry when it has not changed
// for ttl. Where values are fixed, that is ttl after it appeared. A ttl that is not
// positive panics.
//
// Everything made from the result sees a removal: counts, views, snapshots, filters.
// Nothing upstream is forgotten, so ks decides whether a key comes again. An entry of a
// BoundedValue appears once, so it is gone for good. A running aggregate that changes
// again is back with its whole value.
//
// It keeps the entries it shows. Each change resets a timer, in O(1). A flow whose
// inputs are closed ends when the last entry has been removed; dataflow.App.Stop does
// not wait for that.
//
// # Nondeterminism
//
// The clock decides what happens before an entry is removed.
func ForgetAfter[K comparable, V any, L dataflow.Location, B bounds.Forgotten[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], ttl time.Duration, why dataflow.NonDet,
) dataflow.KeyedSingleton[K, V, L, Out] {
	n, op := engine.ReadReasoned(engine.KeyedNodeOf(ks), "keyedsingleton.ForgetAfter", why)
	if ttl <= 0 {
		engine.Misuse(op.Name, "ttl is %v", ttl)
	}
	return newKeyedSingleton[K, V, L, Out](operators.ForgetAfter(n, op, ttl))
}
