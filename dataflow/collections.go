package dataflow

import "github.com/millrace/millrace/bounds"

// A Stream is a sequence of elements of type T at location L. B says whether more may
// come, O whether the order is fixed, R whether an element may be repeated.
//
// A collection is a handle. It is cheap to copy and can be used any number of times
// while a flow is built. The zero value is not a collection.
type Stream[T any, L Location, B bounds.Stream, O Order, R Retries] stream[T, L, B, O, R]

// A KeyedStream is a sequence of values of type V for each key of type K. The order
// O holds within a key; there is none between keys.
type KeyedStream[K comparable, V any, L Location, B bounds.Stream, O Order, R Retries] keyedStream[K, V, L, B, O, R]

// A KeyedSingleton is one value of type V for each key of type K: a map that stays
// live. B says what may still change about its keys and its values; see package
// bounds.
type KeyedSingleton[K comparable, V any, L Location, B bounds.KeyedSingleton] keyedSingleton[K, V, L, B]

// A Singleton is one value of type T that may change over time and is always present.
type Singleton[T any, L Location, B bounds.Singleton] singleton[T, L, B]

// An Optional is at most one value of type T.
type Optional[T any, L Location, B bounds.Singleton] optional[T, L, B]

// Versioned is satisfied by the collections that have one version at a time, of which
// only the latest matters: [Singleton], [Optional] and [KeyedSingleton]. A stream has
// elements instead, and each of them counts. See slice.Passive.
type Versioned interface {
	hasOneVersionAtATime()
}

func (KeyedSingleton[K, V, L, B]) hasOneVersionAtATime() {}
func (Singleton[T, L, B]) hasOneVersionAtATime()         {}
func (Optional[T, L, B]) hasOneVersionAtATime()          {}
