package keyedstream

import (
	"reflect"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
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

func newKeyedInputPort[K comparable, V any](in *port.KeyedInput[K, V]) *dataflow.KeyedInputPort[K, V] {
	var p dataflow.KeyedInputPort[K, V] = seal.Make[func(K, V), port.EntrySender[K, V]](in)
	return &p
}

func newSharedKeyedInputPort[K comparable, V any](in *port.KeyedInput[K, V]) *dataflow.SharedKeyedInputPort[K, V] {
	var p dataflow.SharedKeyedInputPort[K, V] = seal.Make[func(dataflow.NoOrder, K, V), port.EntrySender[K, V]](in)
	return &p
}

func newOutputPort[T any](out *port.Output[T]) *dataflow.OutputPort[T] {
	var p dataflow.OutputPort[T] = seal.Make[func() T, port.Receiver[T]](out)
	return &p
}

// placeOf returns the place of a location. It panics if the location was not made as an L.
func placeOf[L dataflow.Location](at L, op string) engine.Place {
	return engine.PlaceOf(seal.Untyped(&at), reflect.TypeFor[L](), op)
}

// sequenceOf returns the sequence in how, or nil if there is none. It panics if there are
// several.
func sequenceOf[K comparable](op string, how []dataflow.Sequence[K]) (one *operators.Sequence[K]) {
	if len(how) > 1 {
		engine.Misuse(op, "there are %d ways to remember a key, one is enough", len(how))
	}
	for _, s := range how {
		one = seal.Value(s)
	}
	return one
}
