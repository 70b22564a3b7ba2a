package model

import (
	"maps"
	"slices"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// within makes the evaluation of an operator that treats each key separately.
func within(f func(n, key int, vs []int) []int) func(int, Content) Content {
	return func(n int, c Content) Content {
		out := Content{Keyed: make(map[int][]int)}
		for k, vs := range c.Keyed {
			if us := f(n, k, vs); len(us) > 0 {
				out.Keyed[k] = us
			}
		}
		return out
	}
}

// settled makes the evaluation of an operator that gives each key at most one value.
func settled(f func(n int, vs []int) (int, bool)) func(int, Content) Content {
	return func(n int, c Content) Content {
		out := Content{Entries: make(map[int]int)}
		for k, vs := range c.Keyed {
			if len(vs) == 0 {
				continue
			}
			if v, ok := f(n, vs); ok {
				out.Entries[k] = v
			}
		}
		return out
	}
}

func eachValue(f func(n, k, v int) []int) func(int, Content) Content {
	return within(func(n, k int, vs []int) (out []int) {
		for _, v := range vs {
			out = append(out, f(n, k, v)...)
		}
		return out
	})
}

// somesOf returns the operators over a keyed stream with or without order.
func somesOf[L dataflow.Location, B interface {
	bounds.FoldedGrowing[G]
	bounds.Folded[F]
}, O dataflow.Order, G bounds.Aggregate, F bounds.KeyedSingleton]() []operator {
	type S = keyedOf[L, B, O]
	return []operator{
		op1("keyedstream.Map", func(c call, s S) S { return keyedstream.Map(s, func(v int) int { return change(c.n, v) }) },
			eachValue(func(n, _, v int) []int { return []int{change(n, v)} })),
		op1("keyedstream.MapWithKey", func(c call, s S) S {
			return keyedstream.MapWithKey(s, func(k, v int) int { return change(k, v) })
		}, eachValue(func(_, k, v int) []int { return []int{change(k, v)} })),
		op1("keyedstream.Filter", func(c call, s S) S { return keyedstream.Filter(s, func(v int) bool { return keep(c.n, v) }) },
			eachValue(func(n, _, v int) []int { return slices.Repeat([]int{v}, count(keep(n, v))) })),
		op1("keyedstream.FilterWithKey", func(c call, s S) S { return keyedstream.FilterWithKey(s, keep) },
			eachValue(func(_, k, v int) []int { return slices.Repeat([]int{v}, count(keep(k, v))) })),
		op1("keyedstream.FilterMap", func(c call, s S) S {
			return keyedstream.FilterMap(s, func(v int) (int, bool) { return change(c.n, v), keep(c.n, v) })
		}, eachValue(func(n, _, v int) []int { return slices.Repeat([]int{change(n, v)}, count(keep(n, v))) })),
		op1("keyedstream.FilterMapWithKey", func(c call, s S) S {
			return keyedstream.FilterMapWithKey(s, func(k, v int) (int, bool) { return change(k, v), keep(k+c.n, v) })
		}, eachValue(func(n, k, v int) []int { return slices.Repeat([]int{change(k, v)}, count(keep(k+n, v))) })),
		op1("keyedstream.TryMap, values", func(c call, s S) S {
			values, _ := keyedstream.TryMap(s, func(v int) (int, error) { return tried(c.n, v) })
			return values
		}, eachValue(func(n, _, v int) []int { return slices.Repeat([]int{change(n, v)}, count(keep(n, v))) })),
		op1("keyedstream.TryMap, failures", func(c call, s S) S {
			_, failures := keyedstream.TryMap(s, func(v int) (int, error) { return tried(c.n, v) })
			return keyedstream.Map(failures, func(f dataflow.Failure[int]) int { return f.Value })
		}, eachValue(func(n, _, v int) []int { return slices.Repeat([]int{v}, 1-count(keep(n, v))) })),
		op1("keyedstream.AssumeOnce", func(_ call, s S) S { return keyedstream.AssumeOnce(keyedstream.AssumeRepeats(s), why) },
			func(_ int, c Content) Content { return c }).draws("keyedstream.AssumeRepeats"),
		op1("keyedstream.InspectWithKey", func(_ call, s S) S { return keyedstream.InspectWithKey(s, func(int, int) {}) },
			func(_ int, c Content) Content { return c }),
		op1("keyedstream.FoldCommutative", func(_ call, s S) entriesOf[L, F] {
			return keyedstream.FoldCommutative(s, func() int { return 3 }, func(acc *int, v int) { *acc ^= v }, "exclusive or forgets the order")
		}, settled(func(_ int, vs []int) (int, bool) {
			acc := 3
			for _, v := range vs {
				acc ^= v
			}
			return acc, true
		})),
		op1("keyedstream.FoldCommutativeGrowing", func(_ call, s S) entriesOf[L, G] {
			return keyedstream.FoldCommutativeGrowing(s, func() int { return 3 }, func(acc *int, v int) { *acc |= v }, "or forgets the order, and a bit that is set stays set")
		}, settled(func(_ int, vs []int) (int, bool) {
			acc := 3
			for _, v := range vs {
				acc |= v
			}
			return acc, true
		})),
		op1("keyedstream.Get", func(c call, s S) streamOf[L, B, O] {
			return keyedstream.Get(s, singleton.Of(place[L](c), c.n%4))
		}, func(n int, c Content) Content { return ofList(c.Keyed[n%4]) }),
		op1("keyedstream.FlatMap", func(c call, s S) S {
			return keyedstream.FlatMap(s, func(v int, emit func(int)) {
				for range v % 3 {
					emit(change(c.n, v))
				}
			})
		}, eachValue(func(n, _, v int) []int { return slices.Repeat([]int{change(n, v)}, v%3) })),
		op1("keyedstream.Partition, yes", func(c call, s S) S {
			yes, _ := keyedstream.Partition(s, func(v int) bool { return keep(c.n, v) })
			return yes
		}, eachValue(func(n, _, v int) []int { return slices.Repeat([]int{v}, count(keep(n, v))) })),
		op1("keyedstream.Partition, no", func(c call, s S) S {
			_, no := keyedstream.Partition(s, func(v int) bool { return keep(c.n, v) })
			return no
		}, eachValue(func(n, _, v int) []int { return slices.Repeat([]int{v}, 1-count(keep(n, v))) })),
		op1("keyedstream.Inspect", func(_ call, s S) S { return keyedstream.Inspect(s, func(int) {}) },
			func(_ int, c Content) Content { return c }),
		op1("keyedstream.Unique", func(_ call, s S) S { return keyedstream.Unique(s) },
			within(func(_, _ int, vs []int) []int { return firsts(vs) })),
		op1("keyedstream.WeakenOrder", func(_ call, s S) keyedOf[L, B, loose] { return keyedstream.WeakenOrder(s) },
			func(_ int, c Content) Content { return c }).frees(),
		op2("keyedstream.Merge", func(_ call, s, t S) keyedOf[L, B, loose] { return keyedstream.Merge(s, t) },
			func(_ int, a, b Content) Content { return together(a, b) }),
		op2("keyedstream.Join", func(_ call, s, t S) keyedOf[L, B, loose] {
			return keyedstream.Map(keyedstream.Join(s, t), packed)
		}, func(_ int, a, b Content) Content {
			return within(func(_, k int, vs []int) (out []int) {
				for _, v := range vs {
					for _, w := range b.Keyed[k] {
						out = append(out, pack(v, w))
					}
				}
				return out
			})(0, a)
		}).frees(),
		op1("keyedstream.Rekey", func(c call, s S) keyedOf[L, B, loose] {
			return keyedstream.Rekey(s, func(k, v int) int { return keyOf(k, v) })
		}, func(_ int, c Content) Content {
			out := Content{Keyed: make(map[int][]int)}
			for k, vs := range c.Keyed {
				for _, v := range vs {
					out.Keyed[keyOf(k, v)] = append(out.Keyed[keyOf(k, v)], v)
				}
			}
			return out
		}),
		op1("keyedstream.PrefixKey", func(c call, s S) keyedOf[L, B, loose] {
			fine := keyedstream.PrefixKey(s, func(_, v int) int { return keyOf(c.n, v) })
			return keyedstream.Rekey(fine, func(k dataflow.Pair[int, int], _ int) int { return pack(k.First, k.Second) % 4 })
		}, func(n int, c Content) Content {
			out := Content{Keyed: make(map[int][]int)}
			for k, vs := range c.Keyed {
				for _, v := range vs {
					j := pack(keyOf(n, v), k) % 4
					out.Keyed[j] = append(out.Keyed[j], v)
				}
			}
			return out
		}),
		op1("keyedstream.Entries", func(_ call, s S) streamOf[L, B, loose] {
			return dataflow.Map(keyedstream.Entries(s), func(e dataflow.Entry[int, int]) int { return pack(e.Key, e.Value) })
		}, func(_ int, c Content) Content {
			return ofList(flat(eachValue(func(_, k, v int) []int { return []int{pack(k, v)} })(0, c)))
		}).frees(),
		op1("dataflow.Keyed of keyedstream.Entries", func(_ call, s S) keyedOf[L, B, loose] { return dataflow.Keyed(keyedstream.Entries(s)) },
			func(_ int, c Content) Content { return c }).frees(),
		op1("keyedstream.Values", func(_ call, s S) streamOf[L, B, loose] { return keyedstream.Values(s) },
			func(_ int, c Content) Content { return ofList(flat(c)) }).frees(),
		op1("keyedstream.Keys", func(_ call, s S) streamOf[L, B, loose] { return keyedstream.Keys(s) },
			func(_ int, c Content) Content { return ofList(slices.Collect(maps.Keys(c.Keyed))) }).frees(),
		op1("keyedstream.Count", func(_ call, s S) entriesOf[L, G] { return keyedstream.Count(s) },
			settled(func(_ int, vs []int) (int, bool) { return len(vs), true })),
		op1("keyedstream.Sum", func(_ call, s S) entriesOf[L, F] { return keyedstream.Sum(s) },
			settled(func(_ int, vs []int) (int, bool) { return sum(vs), true })),
		op1("keyedstream.Max", func(_ call, s S) entriesOf[L, G] { return keyedstream.Max(s) },
			settled(func(_ int, vs []int) (int, bool) { return slices.Max(vs), true })),
		op1("keyedstream.Min", func(_ call, s S) entriesOf[L, F] { return keyedstream.Min(s) },
			settled(func(_ int, vs []int) (int, bool) { return slices.Min(vs), true })),
		op1("keyedstream.CrossSingleton", func(c call, s S) S {
			return keyedstream.Map(keyedstream.CrossSingleton(s, singleton.Of(place[L](c), c.n)), packed)
		}, eachValue(func(n, _, v int) []int { return []int{pack(v, n)} })),
		op1("keyedstream.AntiJoin", func(c call, s S) S { return keyedstream.AntiJoin(s, dataflow.Of(place[L](c), c.n%4, 1)) },
			func(n int, c Content) Content {
				return within(func(n, k int, vs []int) []int { return slices.Repeat(vs, count(k != n%4 && k != 1)) })(n, c)
			}),
	}
}

// rowsOf returns the operators over a keyed stream that need its order.
func rowsOf[L dataflow.Location, B interface {
	bounds.FoldedGrowing[G]
	bounds.Folded[F]
	bounds.Final[E]
}, G bounds.Aggregate, F, E bounds.KeyedSingleton]() []operator {
	type S = keyedOf[L, B, ordered]
	return []operator{
		op1("keyedstream.First", func(_ call, s S) entriesOf[L, E] { return keyedstream.First(s) },
			settled(func(_ int, vs []int) (int, bool) { return vs[0], true })),
		op1("keyedstream.ScanFirst, decided", func(c call, s S) entriesOf[L, E] {
			_, decided := keyedstream.ScanFirst(s, func() int { return 0 }, func(acc *int, v int, _ func(int)) (int, bool) {
				*acc += v
				return *acc, *acc > 2*c.n
			})
			return decided
		}, settled(func(n int, vs []int) (int, bool) {
			for i := range vs {
				if total := sum(vs[:i+1]); total > 2*n {
					return total, true
				}
			}
			return 0, false
		})),
		op1("keyedstream.FoldEarlyStop", func(c call, s S) entriesOf[L, E] {
			return keyedstream.FoldEarlyStop(s, func() int { return 0 }, func(acc *int, v int) bool {
				*acc += v
				return *acc > 2*c.n
			})
		}, settled(func(n int, vs []int) (int, bool) {
			for i := range vs {
				if total := sum(vs[:i+1]); total > 2*n {
					return total, true
				}
			}
			return 0, false
		})),
		op1("keyedstream.First, sequenced", func(c call, s S) entriesOf[L, E] { return keyedstream.First(s, numbers(c.n)) },
			settled(func(_ int, vs []int) (int, bool) { return vs[0], true })).draws("keyedstream.First", "dataflow.Sequenced"),
		op1("keyedstream.FoldEarlyStop, sequenced", func(c call, s S) entriesOf[L, E] {
			return keyedstream.FoldEarlyStop(s, func() int { return 0 }, func(acc *int, v int) bool {
				*acc += v
				return *acc > 2*c.n
			}, numbers(c.n))
		}, settled(func(n int, vs []int) (int, bool) {
			for i := range vs {
				if total := sum(vs[:i+1]); total > 2*n {
					return total, true
				}
			}
			return 0, false
		})),
		op1("keyedstream.Fold", func(_ call, s S) entriesOf[L, F] {
			return keyedstream.Fold(s, func() int { return 0 }, func(acc *int, v int) { *acc = fold(*acc, v) })
		}, settled(func(_ int, vs []int) (int, bool) { return folded(vs), true })),
		op1("keyedstream.FoldGrowing", func(_ call, s S) entriesOf[L, G] {
			return keyedstream.FoldGrowing(s, func() int { return 0 }, func(acc *int, v int) { *acc += v }, "values are never negative")
		}, settled(func(_ int, vs []int) (int, bool) { return sum(vs), true })),
		op1("keyedstream.Reduce", func(_ call, s S) entriesOf[L, F] {
			return keyedstream.Reduce(s, func(acc *int, v int) { *acc = fold(*acc, v) })
		}, settled(func(_ int, vs []int) (int, bool) {
			acc := vs[0]
			for _, v := range vs[1:] {
				acc = fold(acc, v)
			}
			return acc, true
		})),
		op1("keyedstream.Scan", func(_ call, s S) S { return keyedstream.Scan(s, func() int { return 0 }, scanStep) },
			within(func(_, _ int, vs []int) []int { return scanned(vs) })),
		op1("keyedstream.ScanFirst, emitted", func(_ call, s S) S {
			emitted, _ := keyedstream.ScanFirst(s, func() int { return 0 }, func(state *int, x int, emit func(int)) (int, bool) {
				scanStep(state, x, emit)
				return x, true
			})
			return emitted
		}, within(func(_, _ int, vs []int) []int { return scanned(vs) })),
		op1("keyedstream.Enumerate", func(_ call, s S) S { return keyedstream.Map(keyedstream.Enumerate(s), packed) },
			within(func(_, _ int, vs []int) []int { return enumerated(vs) })),
		op1("keyedstream.Limit", func(c call, s S) S { return keyedstream.Limit(s, c.n%4) },
			within(func(n, _ int, vs []int) []int { return vs[:min(n%4, len(vs))] })),
	}
}
