package optional

import (
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

func newOptionalOutputPort[T any](out *port.ValueOutput[T]) *dataflow.OptionalOutputPort[T] {
	var p dataflow.OptionalOutputPort[T] = seal.Make[func() dataflow.Maybe[T], port.ValueReceiver[T]](out)
	return &p
}
