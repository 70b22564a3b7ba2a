package serve

import (
	"reflect"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/port"
	"github.com/millrace/millrace/internal/seal"
)

// The functions in this file declare the promises that a collection's type makes, so they are
// all in one file; see package seal.

func newKeyedSingleton[K comparable, V, L, B any](n *engine.KeyedNode[K, V]) seal.Type[func(K, V, L, B), engine.HeldKeyedNode[K, V]] {
	return seal.Make[func(K, V, L, B), engine.HeldKeyedNode[K, V]](n)
}

func newEntryOutputPort[K comparable, V any](out *port.EntryOutput[K, V]) *dataflow.EntryOutputPort[K, V] {
	var p dataflow.EntryOutputPort[K, V] = seal.Make[func(K) V, port.EntryReceiver[K, V]](out)
	return &p
}

// placeOf returns the place of a location. It panics if the location was not made as an L.
func placeOf[L dataflow.Location](at L, op string) engine.Place {
	return engine.PlaceOf(seal.Untyped(&at), reflect.TypeFor[L](), op)
}
