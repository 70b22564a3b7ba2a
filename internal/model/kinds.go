package model

import (
	"reflect"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
)

// Short names for the types of the collections in a program, so that they fit on a line.
type (
	here    = dataflow.Here
	inside  = dataflow.Tick[dataflow.Here]
	ordered = dataflow.TotalOrder
	loose   = dataflow.NoOrder
	once    = dataflow.ExactlyOnce

	streamOf[L dataflow.Location, B bounds.Stream, O dataflow.Order] = dataflow.Stream[int, L, B, O, once]
	keyedOf[L dataflow.Location, B bounds.Stream, O dataflow.Order]  = dataflow.KeyedStream[int, int, L, B, O, once]
	entriesOf[L dataflow.Location, B bounds.KeyedSingleton]          = dataflow.KeyedSingleton[int, int, L, B]
	valueOf[L dataflow.Location, B bounds.Singleton]                 = dataflow.Singleton[int, L, B]
	maybeOf[L dataflow.Location, B bounds.Singleton]                 = dataflow.Optional[int, L, B]

	// outside slices
	stream  = streamOf[here, bounds.Unbounded, ordered]
	streams = keyedOf[here, bounds.Unbounded, ordered]
	fixed   = entriesOf[here, bounds.BoundedValue]

	// inside slices
	piece   = streamOf[inside, bounds.Bounded, ordered]
	pieces  = keyedOf[inside, bounds.Bounded, ordered]
	content = entriesOf[inside, bounds.Bounded]
	value   = valueOf[inside, bounds.Bounded]
)

// kinds are the types that a collection in a program may have.
var kinds = map[reflect.Type]kind{
	reflect.TypeFor[stream]():                                  {listed, true, false, "Stream"},
	reflect.TypeFor[streamOf[here, bounds.Unbounded, loose]](): {listed, false, false, "Stream without order"},
	reflect.TypeFor[streams]():                                 {keyed, true, false, "KeyedStream"},
	reflect.TypeFor[keyedOf[here, bounds.Unbounded, loose]]():  {keyed, false, false, "KeyedStream without order"},
	reflect.TypeFor[fixed]():                                   {entered, true, false, "KeyedSingleton of BoundedValue"},
	reflect.TypeFor[entriesOf[here, bounds.RetainedValue]]():   {entered, true, false, "KeyedSingleton of RetainedValue"},
	reflect.TypeFor[entriesOf[here, bounds.MonotonicValue]]():  {entered, true, false, "KeyedSingleton of MonotonicValue"},
	reflect.TypeFor[entriesOf[here, bounds.MonotonicKeys]]():   {entered, true, false, "KeyedSingleton of MonotonicKeys"},
	reflect.TypeFor[entriesOf[here, bounds.Unbounded]]():       {entered, true, false, "KeyedSingleton of Unbounded"},
	reflect.TypeFor[valueOf[here, bounds.MonotonicValue]]():    {single, true, false, "Singleton of MonotonicValue"},
	reflect.TypeFor[valueOf[here, bounds.Unbounded]]():         {single, true, false, "Singleton of Unbounded"},
	reflect.TypeFor[maybeOf[here, bounds.MonotonicValue]]():    {perhaps, true, false, "Optional of MonotonicValue"},
	reflect.TypeFor[maybeOf[here, bounds.Unbounded]]():         {perhaps, true, false, "Optional of Unbounded"},

	reflect.TypeFor[piece]():                                   {listed, true, true, "Stream inside"},
	reflect.TypeFor[streamOf[inside, bounds.Bounded, loose]](): {listed, false, true, "Stream inside, without order"},
	reflect.TypeFor[pieces]():                                  {keyed, true, true, "KeyedStream inside"},
	reflect.TypeFor[keyedOf[inside, bounds.Bounded, loose]]():  {keyed, false, true, "KeyedStream inside, without order"},
	reflect.TypeFor[content]():                                 {entered, true, true, "KeyedSingleton inside"},
	reflect.TypeFor[value]():                                   {single, true, true, "Singleton inside"},
	reflect.TypeFor[maybeOf[inside, bounds.Bounded]]():         {perhaps, true, true, "Optional inside"},
}

// The functions of which programs are made. Results are small, so that keys and values
// repeat.
func change(n, x int) int { return (x*3 + n) % 23 }
func keep(n, x int) bool  { return (x+n)%3 != 0 }
func keyOf(n, x int) int  { return (x + n) % 4 }
func pack(a, b int) int   { return (a*7 + b*3 + 1) % 23 }

// fold is a step that depends on the order.
func fold(acc, x int) int { return (acc*2 + x + 1) % 23 }

func packed(p dataflow.Pair[int, int]) int { return pack(p.First, p.Second) }

// A call is an operator being built at its place in a program.
type call struct {
	*builder
	n     int
	slice int
}

// place returns the location of the operator: L is one of two types.
func place[L dataflow.Location](c call) L {
	if at, ok := any(c.at).(L); ok {
		return at
	}
	return any(c.ticks[c.slice]).(L)
}

func op0[R any](name string, build func(call) R, eval func(int) Content) operator {
	return operator{
		name: name, out: reflect.TypeFor[R](),
		build: func(b *builder, x *node, _ []any) any { return build(call{b, x.n, x.slice}) },
		eval:  func(n int, _ []Content) Content { return eval(n) },
	}
}

func op1[A, R any](name string, build func(call, A) R, eval func(int, Content) Content) operator {
	return operator{
		name: name, in: []reflect.Type{reflect.TypeFor[A]()}, out: reflect.TypeFor[R](),
		build: func(b *builder, x *node, in []any) any { return build(call{b, x.n, x.slice}, in[0].(A)) },
		eval:  func(n int, in []Content) Content { return eval(n, in[0]) },
	}
}

func op2[A, B, R any](name string, build func(call, A, B) R, eval func(int, Content, Content) Content) operator {
	return operator{
		name: name, in: []reflect.Type{reflect.TypeFor[A](), reflect.TypeFor[B]()}, out: reflect.TypeFor[R](),
		build: func(b *builder, x *node, in []any) any {
			return build(call{b, x.n, x.slice}, in[0].(A), in[1].(B))
		},
		eval: func(n int, in []Content) Content { return eval(n, in[0], in[1]) },
	}
}

func (o operator) at(e edge) operator   { o.edge = e; return o }
func (o operator) keepsFresh() operator { o.fresh = true; return o }
func (o operator) rarely() operator     { o.rare = true; return o }

// draws says that o includes other operators.
func (o operator) draws(names ...string) operator { o.also = names; return o }
