package keyedsingleton

import (
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// ForgetAfter returns the entries of ks, each for as long as it has changed within the
// time ttl: an entry that did not change for that long is removed. Where values are
// fixed, that is ttl after it appeared. A ttl that is not positive panics.
//
// A removal is seen by everything that is made of the result: counts, views,
// snapshots, filters. Nothing upstream is forgotten. So whether a key comes again is
// for ks to say: an entry of a BoundedValue appears once, so that it is gone for good,
// while a running aggregate that changes again is back with the whole of its value.
//
// It keeps the entries it shows. Each change resets a timer, in O(1). A flow whose
// inputs are closed ends when the last entry was removed; dataflow.App.Stop does not
// wait for that.
//
// # Nondeterminism
//
// What happens before an entry is removed is the clock's choice.
func ForgetAfter[K comparable, V any, L dataflow.Location, B bounds.Forgotten[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], ttl time.Duration, why dataflow.NonDet,
) dataflow.KeyedSingleton[K, V, L, Out] {
	n, op := engine.ReadReasoned(engine.KeyedNodeOf(ks), "keyedsingleton.ForgetAfter", why)
	if ttl <= 0 {
		engine.Misuse(op.Name, "ttl is %v", ttl)
	}
	return newKeyedSingleton[K, V, L, Out](operators.ForgetAfter(n, op, ttl))
}
