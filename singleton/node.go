package singleton

import (
	"reflect"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/port"
	"github.com/millrace/millrace/internal/seal"
)

// The functions in this file declare the promises that a collection's type makes, so they are
// all in one file; see package seal.

func newStream[T, L, B, O, R any](n *engine.Node[T]) seal.Type[func(T, L, B, O, R), engine.HeldNode[T]] {
	return seal.Make[func(T, L, B, O, R), engine.HeldNode[T]](n)
}

func newSingleton[T, L, B any](c *engine.ValueNode[T]) seal.Type[func(T, L, B), engine.HeldValueNode[T]] {
	return seal.Make[func(T, L, B), engine.HeldValueNode[T]](c)
}

func newOptional[T, L, B any](c *engine.ValueNode[T]) seal.Type[func(dataflow.Maybe[T], L, B), engine.HeldValueNode[T]] {
	return seal.Make[func(dataflow.Maybe[T], L, B), engine.HeldValueNode[T]](c)
}

func newSingletonOutputPort[T any](out *port.ValueOutput[T]) *dataflow.SingletonOutputPort[T] {
	var p dataflow.SingletonOutputPort[T] = seal.Make[func() T, port.ValueReceiver[T]](out)
	return &p
}

// placeOf returns the place of a location. It panics if the location was not made as an
// L.
func placeOf[L dataflow.Location](at L, op string) engine.Place {
	return engine.PlaceOf(seal.Untyped(&at), reflect.TypeFor[L](), op)
}
