package model

import (
	"maps"
	"slices"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/singleton"
)

func ofList(xs []int) Content { return Content{List: xs} }

// each makes the evaluation of an operator that handles one element after another.
func each(f func(n, x int) []int) func(int, Content) Content {
	return func(n int, c Content) Content {
		var out []int
		for _, x := range c.List {
			out = append(out, f(n, x)...)
		}
		return ofList(out)
	}
}

func firsts(xs []int) (out []int) {
	for _, x := range xs {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

func sum(xs []int) (total int) {
	for _, x := range xs {
		total += x
	}
	return total
}

func folded(xs []int) (acc int) {
	for _, x := range xs {
		acc = fold(acc, x)
	}
	return acc
}

func grouped(xs []int, key func(int) int) Content {
	out := Content{Keyed: make(map[int][]int)}
	for _, x := range xs {
		k := key(x)
		out.Keyed[k] = append(out.Keyed[k], x)
	}
	return out
}

func maybe(xs []int, pick func([]int) int) Content {
	if len(xs) == 0 {
		return Content{}
	}
	return Content{Value: pick(xs), OK: true}
}

// someOf returns the operators over a stream with or without order.
func someOf[L dataflow.Location, B bounds.FoldedGrowing[G], O dataflow.Order, G bounds.Aggregate]() []operator {
	type S = streamOf[L, B, O]
	return []operator{
		op1("dataflow.Map", func(c call, s S) S { return dataflow.Map(s, func(x int) int { return change(c.n, x) }) },
			each(func(n, x int) []int { return []int{change(n, x)} })),
		op1("dataflow.MapRef", func(c call, s S) S { return dataflow.MapRef(s, func(x *int) int { return change(c.n, *x) }) },
			each(func(n, x int) []int { return []int{change(n, x)} })),
		op1("dataflow.Filter", func(c call, s S) S { return dataflow.Filter(s, func(x int) bool { return keep(c.n, x) }) },
			each(func(n, x int) []int { return slices.Repeat([]int{x}, count(keep(n, x))) })),
		op1("dataflow.FilterMap", func(c call, s S) S {
			return dataflow.FilterMap(s, func(x int) (int, bool) { return change(c.n, x), keep(c.n, x) })
		}, each(func(n, x int) []int { return slices.Repeat([]int{change(n, x)}, count(keep(n, x))) })),
		op1("dataflow.FlatMap", func(c call, s S) S {
			return dataflow.FlatMap(s, func(x int, emit func(int)) {
				for range x % 3 {
					emit(change(c.n, x))
				}
			})
		}, each(func(n, x int) []int { return slices.Repeat([]int{change(n, x)}, x%3) })),
		op1("dataflow.Partition, yes", func(c call, s S) S {
			yes, _ := dataflow.Partition(s, func(x int) bool { return keep(c.n, x) })
			return yes
		}, each(func(n, x int) []int { return slices.Repeat([]int{x}, count(keep(n, x))) })),
		op1("dataflow.Partition, no", func(c call, s S) S {
			_, no := dataflow.Partition(s, func(x int) bool { return keep(c.n, x) })
			return no
		}, each(func(n, x int) []int { return slices.Repeat([]int{x}, 1-count(keep(n, x))) })),
		op1("dataflow.TryMap, values", func(c call, s S) S {
			values, _ := dataflow.TryMap(s, func(x int) (int, error) { return tried(c.n, x) })
			return values
		}, each(func(n, x int) []int { return slices.Repeat([]int{change(n, x)}, count(keep(n, x))) })),
		op1("dataflow.TryMap, failures", func(c call, s S) S {
			_, failures := dataflow.TryMap(s, func(x int) (int, error) { return tried(c.n, x) })
			return dataflow.Map(failures, func(f dataflow.Failure[int]) int { return f.Value })
		}, each(func(n, x int) []int { return slices.Repeat([]int{x}, 1-count(keep(n, x))) })),
		op1("dataflow.AssumeOnce", func(_ call, s S) S { return dataflow.AssumeOnce(dataflow.AssumeRepeats(s), why) },
			func(_ int, c Content) Content { return c }).draws("dataflow.AssumeRepeats"),
		op1("dataflow.Inspect", func(c call, s S) S { return dataflow.Inspect(s, func(int) {}) },
			func(_ int, c Content) Content { return c }),
		op1("dataflow.Unique", func(c call, s S) S { return dataflow.Unique(s) },
			func(_ int, c Content) Content { return ofList(firsts(c.List)) }),
		op1("dataflow.WeakenOrder", func(c call, s S) streamOf[L, B, loose] { return dataflow.WeakenOrder(s) },
			func(_ int, c Content) Content { return c }).frees(),
		op2("dataflow.Merge", func(_ call, s, t S) streamOf[L, B, loose] { return dataflow.Merge(s, t) },
			func(_ int, a, b Content) Content { return ofList(slices.Concat(a.List, b.List)) }),
		op1("dataflow.KeyBy", func(c call, s S) keyedOf[L, B, O] {
			return dataflow.KeyBy(s, func(x int) int { return keyOf(c.n, x) })
		}, func(n int, c Content) Content { return grouped(c.List, func(x int) int { return keyOf(n, x) }) }),
		op1("dataflow.KeyByRef", func(c call, s S) keyedOf[L, B, O] {
			return dataflow.KeyByRef(s, func(x *int) int { return keyOf(c.n, *x) })
		}, func(n int, c Content) Content { return grouped(c.List, func(x int) int { return keyOf(n, x) }) }),
		op1("dataflow.Count", func(_ call, s S) valueOf[L, G] { return dataflow.Count(s) },
			func(_ int, c Content) Content { return Content{Value: len(c.List)} }),
		op1("dataflow.Sum", func(_ call, s S) valueOf[L, B] { return dataflow.Sum(s) },
			func(_ int, c Content) Content { return Content{Value: sum(c.List)} }),
		op1("dataflow.FoldCommutative", func(_ call, s S) valueOf[L, B] {
			return dataflow.FoldCommutative(s, func() int { return 3 }, func(acc *int, x int) { *acc ^= x }, "exclusive or forgets the order")
		}, func(_ int, c Content) Content {
			v := 3
			for _, x := range c.List {
				v ^= x
			}
			return Content{Value: v}
		}),
		op1("dataflow.FoldCommutativeGrowing", func(_ call, s S) valueOf[L, G] {
			return dataflow.FoldCommutativeGrowing(s, func() int { return 3 }, func(acc *int, x int) { *acc |= x }, "or forgets the order, and a bit that is set stays set")
		}, func(_ int, c Content) Content {
			v := 3
			for _, x := range c.List {
				v |= x
			}
			return Content{Value: v}
		}),
		op1("dataflow.Cross", func(c call, s S) streamOf[L, B, loose] {
			return dataflow.Map(dataflow.Cross(s, dataflow.Of(place[L](c), c.n, 4)), packed)
		}, each(func(n, x int) []int { return []int{pack(x, n), pack(x, 4)} })),
		op1("dataflow.Max", func(_ call, s S) maybeOf[L, G] { return dataflow.Max(s) },
			func(_ int, c Content) Content { return maybe(c.List, slices.Max[[]int]) }),
		op1("dataflow.Min", func(_ call, s S) maybeOf[L, B] { return dataflow.Min(s) },
			func(_ int, c Content) Content { return maybe(c.List, slices.Min[[]int]) }),
		op1("dataflow.CrossSingleton", func(c call, s S) S {
			return dataflow.Map(dataflow.CrossSingleton(s, singleton.Of(place[L](c), c.n)), packed)
		}, each(func(n, x int) []int { return []int{pack(x, n)} })),
		op1("dataflow.Chain", func(c call, s S) streamOf[L, B, loose] {
			head := dataflow.WeakenOrder(dataflow.Of(place[L](c), 7, c.n))
			return dataflow.Chain(head, dataflow.WeakenOrder(s))
		}, func(n int, c Content) Content { return ofList(slices.Concat([]int{7, n}, c.List)) }),
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// rowOf returns the operators over a stream that need its order.
func rowOf[L dataflow.Location, B bounds.FoldedGrowing[G], G bounds.Aggregate]() []operator {
	type S = streamOf[L, B, ordered]
	return []operator{
		op1("dataflow.Fold", func(c call, s S) valueOf[L, B] {
			return dataflow.Fold(s, func() int { return 0 }, func(acc *int, x int) { *acc = fold(*acc, x) })
		}, func(_ int, c Content) Content { return Content{Value: folded(c.List)} }),
		op1("dataflow.FoldGrowing", func(_ call, s S) valueOf[L, G] {
			return dataflow.FoldGrowing(s, func() int { return 0 }, func(acc *int, x int) { *acc += x }, "elements are never negative")
		}, func(_ int, c Content) Content { return Content{Value: sum(c.List)} }),
		op1("dataflow.Reduce", func(_ call, s S) maybeOf[L, B] {
			return dataflow.Reduce(s, func(acc *int, x int) { *acc = fold(*acc, x) })
		}, func(_ int, c Content) Content {
			return maybe(c.List, func(xs []int) int {
				acc := xs[0]
				for _, x := range xs[1:] {
					acc = fold(acc, x)
				}
				return acc
			})
		}),
		op1("dataflow.Scan", func(_ call, s S) S {
			return dataflow.Scan(s, func() int { return 0 }, scanStep)
		}, func(_ int, c Content) Content { return ofList(scanned(c.List)) }),
		op1("dataflow.Enumerate", func(_ call, s S) S { return dataflow.Map(dataflow.Enumerate(s), packed) },
			func(_ int, c Content) Content { return ofList(enumerated(c.List)) }),
		op1("dataflow.Limit", func(c call, s S) S { return dataflow.Limit(s, c.n) },
			func(n int, c Content) Content { return ofList(c.List[:min(n, len(c.List))]) }),
		op1("dataflow.Chain", func(c call, s S) S { return dataflow.Chain(dataflow.Of(place[L](c), c.n, 5), s) },
			func(n int, c Content) Content { return ofList(slices.Concat([]int{n, 5}, c.List)) }),
	}
}

// scanStep keeps a running aggregate. It emits the aggregate when it is even, and also
// x when it is 0.
func scanStep(state *int, x int, emit func(int)) {
	if *state = fold(*state, x); *state%2 == 0 {
		emit(*state)
	}
	if *state == 0 {
		emit(x)
	}
}

func scanned(xs []int) (out []int) {
	for i, x := range xs {
		acc := folded(xs[:i+1])
		if acc%2 == 0 {
			out = append(out, acc)
		}
		if acc == 0 {
			out = append(out, x)
		}
	}
	return out
}

func enumerated(xs []int) (out []int) {
	for i, x := range xs {
		out = append(out, pack(i, x))
	}
	return out
}

// flat returns the values of all keys.
func flat(c Content) (out []int) {
	for _, k := range slices.Sorted(maps.Keys(c.Keyed)) {
		out = append(out, c.Keyed[k]...)
	}
	return out
}
