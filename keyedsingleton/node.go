package keyedsingleton

import (
	"reflect"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/cow"
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

func newSingleton[T, L, B any](c *engine.ValueNode[T]) seal.Type[func(T, L, B), engine.HeldValueNode[T]] {
	return seal.Make[func(T, L, B), engine.HeldValueNode[T]](c)
}

func newOptional[T, L, B any](c *engine.ValueNode[T]) seal.Type[func(dataflow.Maybe[T], L, B), engine.HeldValueNode[T]] {
	return seal.Make[func(dataflow.Maybe[T], L, B), engine.HeldValueNode[T]](c)
}

func newView[K comparable, V any](v cow.View[K, V]) dataflow.View[K, V] {
	return seal.MakeOpen[func(K, V)](v)
}

func newEntryInputPort[K comparable, V any](in *port.KeyedInput[K, V]) *dataflow.EntryInputPort[K, V] {
	var p dataflow.EntryInputPort[K, V] = seal.Make[func(dataflow.Entry[K, V]), port.EntrySender[K, V]](in)
	return &p
}

func newEntryOutputPort[K comparable, V any](out *port.EntryOutput[K, V]) *dataflow.EntryOutputPort[K, V] {
	var p dataflow.EntryOutputPort[K, V] = seal.Make[func(K) V, port.EntryReceiver[K, V]](out)
	return &p
}

// placeOf returns the place of a location. It panics if the location was not made as an L.
func placeOf[L dataflow.Location](at L, op string) engine.Place {
	return engine.PlaceOf(seal.Untyped(&at), reflect.TypeFor[L](), op)
}

// inputOf returns the input of a port, or nil if no operator made the port.
func inputOf[K comparable, V any](p *dataflow.EntryInputPort[K, V]) *port.KeyedInput[K, V] {
	if p == nil {
		return nil
	}
	in, _ := seal.Value(*p).(*port.KeyedInput[K, V])
	return in
}

// outputOf returns the output of a port, or nil if no operator made the port.
func outputOf[K comparable, V any](p *dataflow.EntryOutputPort[K, V]) *port.EntryOutput[K, V] {
	if p == nil {
		return nil
	}
	out, _ := seal.Value(*p).(*port.EntryOutput[K, V])
	return out
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
