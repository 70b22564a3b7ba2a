package slice

import (
	"reflect"

	"github.com/millrace/millrace/dataflow"
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

func newOptional[T, L, B any](c *engine.ValueNode[T]) seal.Type[func(dataflow.Maybe[T], L, B), engine.HeldValueNode[T]] {
	return seal.Make[func(dataflow.Maybe[T], L, B), engine.HeldValueNode[T]](c)
}

// newTick opens a slice at a location.
func newTick[L dataflow.Location](at L) dataflow.Tick[L] {
	p := engine.PlaceOf(seal.Untyped(&at), reflect.TypeFor[L](), "slice.At")
	location := p.Outside("slice.At", "%s is a slice already, and slices do not nest")
	return seal.MakeOpen[*L](engine.Place{Type: reflect.TypeFor[dataflow.Tick[L]](), Location: location, Region: engine.NewSlice(location)})
}

// regionOf returns the region of a slice.
func regionOf[L dataflow.Location](tick dataflow.Tick[L], op string) *engine.Region {
	return engine.PlaceOf(seal.Untyped(&tick), reflect.TypeFor[dataflow.Tick[L]](), op).Region
}

// A passive is a node of a collection that has one version at a time.
type passive interface {
	Location() *engine.Location
	MakePassive(*engine.Op)
}

// passiveOf returns the node of the collection that x points to.
func passiveOf(x any, op string) passive {
	node := reflect.ValueOf(seal.Within(x)).Elem()
	if node.IsNil() {
		engine.ZeroCollection(op)
	}
	return node.Interface().(passive)
}
