package model

import (
	"errors"
	"slices"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
)

var errRefused = errors.New("refused")

func tried(n, v int) (int, error) {
	if !keep(n, v) {
		return 0, errRefused
	}
	return change(n, v), nil
}

// The functions below name an operator whose type parameters must be given, or whose
// name is used twice in one file.

func keyedMap[V any](s dataflow.KeyedStream[int, V, inside, bounds.Bounded, ordered, once], f func(V) int) pieces {
	return keyedstream.Map(s, f)
}

func crossKeyed(s pieces, x value) dataflow.KeyedStream[int, dataflow.Pair[int, int], inside, bounds.Bounded, ordered, once] {
	return keyedstream.CrossSingleton(s, x)
}

func antiJoin(s pieces, ks piece) pieces { return keyedstream.AntiJoin(s, ks) }
func chainKeyed(a, b pieces) pieces      { return keyedstream.Chain(a, b) }
func alter(n int, c Content) Content     { return Content{Value: change(n, c.Value), OK: c.OK} }
func some(v int, ok bool) Content        { return Content{Value: v * count(ok), OK: ok} }
func isOdd(n int) func(int) bool         { return func(x int) bool { return (x+n)%2 == 1 } }
func changed(n int) func(int) int        { return func(x int) int { return change(n, x) } }
func truth(b bool) int                   { return count(b) }

func optionalMap[T any, L dataflow.Location, B interface {
	bounds.Stream
	bounds.Altered[B]
}](o dataflow.Optional[T, L, B], f func(T) int) maybeOf[L, B] {
	return optional.Map(o, f)
}

// valuesOf returns the operators over a singleton.
func valuesOf[L dataflow.Location, B bounds.Altered[Out], Out interface {
	bounds.Stream
	bounds.Altered[Out]
}]() []operator {
	type S = valueOf[L, B]
	return []operator{
		op1("singleton.Map", func(c call, s S) valueOf[L, Out] { return singleton.Map(s, changed(c.n)) }, alter),
		op1("singleton.Filter", func(c call, s S) maybeOf[L, Out] { return singleton.Filter(s, isOdd(c.n)) },
			func(n int, c Content) Content { return some(c.Value, isOdd(n)(c.Value)) }),
		op1("singleton.FilterMap", func(c call, s S) maybeOf[L, Out] {
			return singleton.FilterMap(s, func(x int) (int, bool) { return change(c.n, x), isOdd(c.n)(x) })
		}, func(n int, c Content) Content { return some(change(n, c.Value), isOdd(n)(c.Value)) }),
	}
}

// maybesOf returns the operators over an optional.
func maybesOf[L dataflow.Location, B bounds.Altered[Out], Out interface {
	bounds.Stream
	bounds.Altered[Out]
}]() []operator {
	type S = maybeOf[L, B]
	return []operator{
		op1("optional.Map", func(c call, s S) maybeOf[L, Out] { return optional.Map(s, changed(c.n)) },
			func(n int, c Content) Content { return some(change(n, c.Value), c.OK) }),
		op1("optional.Filter", func(c call, s S) maybeOf[L, Out] { return optional.Filter(s, isOdd(c.n)) },
			func(n int, c Content) Content { return some(c.Value, c.OK && isOdd(n)(c.Value)) }),
		op1("optional.FilterMap", func(c call, s S) maybeOf[L, Out] {
			return optional.FilterMap(s, func(x int) (int, bool) { return change(c.n, x), isOdd(c.n)(x) })
		}, func(n int, c Content) Content { return some(change(n, c.Value), c.OK && isOdd(n)(c.Value)) }),
		op1("optional.IsSome", func(_ call, s S) valueOf[L, Out] { return singleton.Map(optional.IsSome(s), truth) },
			func(_ int, c Content) Content { return Content{Value: count(c.OK)} }),
		op1("optional.IsNone", func(_ call, s S) valueOf[L, Out] { return singleton.Map(optional.IsNone(s), truth) },
			func(_ int, c Content) Content { return Content{Value: count(!c.OK)} }),
		op1("optional.IntoSingleton", func(_ call, s S) valueOf[L, Out] {
			return singleton.Map(optional.IntoSingleton(s), func(m dataflow.Maybe[int]) int { return m.Value + 100*count(m.OK) })
		}, func(_ int, c Content) Content { return Content{Value: c.Value + 100*count(c.OK)} }),
		op1("optional.UnwrapOr", func(c call, s S) valueOf[L, Out] { return optional.UnwrapOr(s, singleton.Of(place[L](c), c.n)) },
			func(n int, c Content) Content {
				if c.OK {
					return Content{Value: c.Value}
				}
				return Content{Value: n}
			}),
		op2("optional.Or", func(_ call, a, b S) maybeOf[L, Out] { return optional.Or(a, b) },
			func(_ int, a, b Content) Content {
				if a.OK {
					return a
				}
				return b
			}),
	}
}

// risingOf returns the operators over a singleton that only grows.
func risingOf[L dataflow.Location, B bounds.Growing[Out], Out bounds.Stream]() []operator {
	return []operator{
		op1("singleton.Threshold", func(c call, s valueOf[L, B]) streamOf[L, Out, ordered] { return singleton.Threshold(s, c.n) },
			func(n int, c Content) Content { return ofList(slices.Repeat([]int{n}, count(c.Value >= n))) }),
		op1("singleton.MapGrowing", func(c call, s valueOf[L, B]) valueOf[L, B] {
			return singleton.MapGrowing(s, func(x int) int { return 2*x + c.n }, "doubling and adding keep what is larger larger")
		}, func(n int, c Content) Content { return Content{Value: 2*c.Value + n} }),
	}
}

// wholes returns the operators over complete streams and values, inside slices.
func wholes() []operator {
	return []operator{
		op1("singleton.IntoStream", func(_ call, x value) piece { return singleton.IntoStream(x) },
			func(_ int, c Content) Content { return ofList([]int{c.Value}) }),
		op1("optional.IntoStream", func(_ call, x maybeOf[inside, bounds.Bounded]) piece { return optional.IntoStream(x) },
			func(_ int, c Content) Content { return ofList(slices.Repeat([]int{c.Value}, count(c.OK))) }),
		op2("singleton.Zip", func(_ call, a, b value) value { return singleton.Map(singleton.Zip(a, b), packed) },
			func(_ int, a, b Content) Content { return Content{Value: pack(a.Value, b.Value)} }),
		op2("optional.Zip", func(_ call, a, b maybeOf[inside, bounds.Bounded]) maybeOf[inside, bounds.Bounded] {
			return optional.Map(optional.Zip(a, b), packed)
		}, func(_ int, a, b Content) Content { return some(pack(a.Value, b.Value), a.OK && b.OK) }),
		op2("dataflow.CrossSingleton", func(_ call, s piece, x value) piece {
			return dataflow.Map(dataflow.CrossSingleton(s, x), packed)
		}, func(_ int, s, x Content) Content {
			return each(func(n, v int) []int { return []int{pack(v, n)} })(x.Value, s)
		}),
		op2("dataflow.Chain", func(_ call, a, b piece) piece { return dataflow.Chain(a, b) },
			func(_ int, a, b Content) Content { return ofList(slices.Concat(a.List, b.List)) }),
		op1("dataflow.Sort", func(_ call, s streamOf[inside, bounds.Bounded, loose]) piece { return dataflow.Sort(s) },
			func(_ int, c Content) Content { return ofList(slices.Sorted(slices.Values(c.List))) }),
		op1("dataflow.Sort", func(_ call, s piece) piece { return dataflow.Sort(s) },
			func(_ int, c Content) Content { return ofList(slices.Sorted(slices.Values(c.List))) }),
		op1("singleton.Of", func(c call, _ value) value { return singleton.Of(place[inside](c), c.n) },
			func(n int, _ Content) Content { return Content{Value: n} }),
		op1("dataflow.Of", func(c call, _ piece) piece { return dataflow.Of(place[inside](c), c.n, 2) },
			func(n int, _ Content) Content { return ofList([]int{n, 2}) }),
	}
}
