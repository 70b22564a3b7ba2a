package dataflow

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/seal"
)

// A Stream is a sequence of elements of type T at location L. B says whether more
// may come, O whether the order is fixed, R whether an element may be repeated.
//
// A collection is a handle: cheap to copy, used while a flow is built, and as often
// as wanted. The zero value is not a collection.
type Stream[T any, L Location, B bounds.Stream, O Order, R Retries] struct {
	_    [0]func(T, L, B, O, R) // keeps two markers from converting to each other
	node *engine.Node[T]
}

// A KeyedStream is a sequence of values of type V for each key of type K. The order
// O holds within a key; there is none between keys.
type KeyedStream[K comparable, V any, L Location, B bounds.Stream, O Order, R Retries] struct {
	_    [0]func(K, V, L, B, O, R)
	node *engine.KNode[K, V]
}

// A KeyedSingleton is one value of type V for each key of type K: a map that stays
// live. B says what may still change about its keys and its values; see package
// bounds.
type KeyedSingleton[K comparable, V any, L Location, B bounds.KeyedSingleton] struct {
	_    [0]func(K, V, L, B)
	node *engine.KNode[K, V]
}

// A Singleton is one value of type T that may change over time and is always there.
type Singleton[T any, L Location, B bounds.Singleton] struct {
	_    [0]func(T, L, B)
	cell *engine.Cell[T]
}

// An Optional is at most one value of type T.
type Optional[T any, L Location, B bounds.Singleton] struct {
	_    [0]func(T, L, B)
	cell *engine.Cell[T]
}

// The functions below wrap a node in a collection and take it out again. The
// seal.Key parameter keeps them to this module.

// SealStream is for this module's operators; see package internal/seal.
func SealStream[T any, L Location, B bounds.Stream, O Order, R Retries](_ seal.Key, n *engine.Node[T]) (_ Stream[T, L, B, O, R]) {
	return Stream[T, L, B, O, R]{node: n}
}

// Unseal is for this module's operators; see package internal/seal.
func (s Stream[T, L, B, O, R]) Unseal(seal.Key) *engine.Node[T] { return made(s.node) }

// SealKeyedStream is for this module's operators; see package internal/seal.
func SealKeyedStream[K comparable, V any, L Location, B bounds.Stream, O Order, R Retries](
	_ seal.Key, n *engine.KNode[K, V],
) (_ KeyedStream[K, V, L, B, O, R]) {
	return KeyedStream[K, V, L, B, O, R]{node: n}
}

// Unseal is for this module's operators; see package internal/seal.
func (s KeyedStream[K, V, L, B, O, R]) Unseal(seal.Key) *engine.KNode[K, V] { return made(s.node) }

// SealKeyedSingleton is for this module's operators; see package internal/seal.
func SealKeyedSingleton[K comparable, V any, L Location, B bounds.KeyedSingleton](
	_ seal.Key, n *engine.KNode[K, V],
) (_ KeyedSingleton[K, V, L, B]) {
	return KeyedSingleton[K, V, L, B]{node: n}
}

// Unseal is for this module's operators; see package internal/seal.
func (s KeyedSingleton[K, V, L, B]) Unseal(seal.Key) *engine.KNode[K, V] { return made(s.node) }

// SealSingleton is for this module's operators; see package internal/seal.
func SealSingleton[T any, L Location, B bounds.Singleton](_ seal.Key, c *engine.Cell[T]) (_ Singleton[T, L, B]) {
	return Singleton[T, L, B]{cell: c}
}

// Unseal is for this module's operators; see package internal/seal.
func (s Singleton[T, L, B]) Unseal(seal.Key) *engine.Cell[T] { return made(s.cell) }

// made panics for a collection that no operator made.
func made[N any](n *N) *N {
	if n == nil {
		panic("dataflow: a zero collection was used: collections come from operators and inputs")
	}
	return n
}
