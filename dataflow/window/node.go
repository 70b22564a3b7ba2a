package window

import (
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/seal"
)

// The functions in this file declare the promises that a collection's type makes, so they are
// all in one file; see package seal.

func newStream[T, L, B, O, R any](n *engine.Node[T]) seal.Type[func(T, L, B, O, R), engine.HeldNode[T]] {
	return seal.Make[func(T, L, B, O, R), engine.HeldNode[T]](n)
}

func newKeyedStream[K comparable, V, L, B, O, R any](n *engine.KeyedNode[K, V]) seal.Type[func(K, V, L, B, O, R), engine.HeldKeyedNode[K, V]] {
	return seal.Make[func(K, V, L, B, O, R), engine.HeldKeyedNode[K, V]](n)
}

func newKeyedSingleton[K comparable, V, L, B any](n *engine.KeyedNode[K, V]) seal.Type[func(K, V, L, B), engine.HeldKeyedNode[K, V]] {
	return seal.Make[func(K, V, L, B), engine.HeldKeyedNode[K, V]](n)
}

func newSingleton[T, L, B any](c *engine.ValueNode[T]) seal.Type[func(T, L, B), engine.HeldValueNode[T]] {
	return seal.Make[func(T, L, B), engine.HeldValueNode[T]](c)
}
