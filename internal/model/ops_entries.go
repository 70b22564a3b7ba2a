package model

import (
	"maps"
	"slices"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/singleton"
)

func ofEntries(m map[int]int) Content { return Content{Entries: m} }

// eachEntry makes the evaluation of an operator that turns an entry into at most one.
func eachEntry(f func(n, k, v int) (int, bool)) func(int, Content) Content {
	return func(n int, c Content) Content {
		out := make(map[int]int)
		for k, v := range c.Entries {
			if u, ok := f(n, k, v); ok {
				out[k] = u
			}
		}
		return ofEntries(out)
	}
}

func valuesIn(c Content) (out []int) {
	for _, k := range slices.Sorted(maps.Keys(c.Entries)) {
		out = append(out, c.Entries[k])
	}
	return out
}

// anyOf returns the operators over every keyed singleton.
func anyOf[L dataflow.Location, B interface {
	bounds.Mapped[M]
	bounds.Filtered[F]
	bounds.Counted[C]
	bounds.Keyed[Keys]
}, M interface {
	bounds.KeyedSingleton
	bounds.Mapped[M]
}, F interface {
	bounds.KeyedSingleton
	bounds.Mapped[F]
}, C bounds.Singleton, Keys interface {
	bounds.Stream
	bounds.Altered[Keys]
}]() []operator {
	type S = entriesOf[L, B]
	return []operator{
		op1("keyedsingleton.Map", func(c call, s S) entriesOf[L, M] {
			return keyedsingleton.Map(s, func(v int) int { return change(c.n, v) })
		}, eachEntry(func(n, _, v int) (int, bool) { return change(n, v), true })).keepsFresh(),
		op1("keyedsingleton.MapWithKey", func(_ call, s S) entriesOf[L, M] { return keyedsingleton.MapWithKey(s, change) },
			eachEntry(func(_, k, v int) (int, bool) { return change(k, v), true })).keepsFresh(),
		op1("keyedsingleton.Filter", func(c call, s S) entriesOf[L, F] {
			return keyedsingleton.Filter(s, func(v int) bool { return keep(c.n, v) })
		}, eachEntry(func(n, _, v int) (int, bool) { return v, keep(n, v) })).keepsFresh(),
		op1("keyedsingleton.FilterWithKey", func(_ call, s S) entriesOf[L, F] { return keyedsingleton.FilterWithKey(s, keep) },
			eachEntry(func(_, k, v int) (int, bool) { return v, keep(k, v) })).keepsFresh(),
		op1("keyedsingleton.FilterMap", func(c call, s S) entriesOf[L, F] {
			return keyedsingleton.FilterMap(s, func(v int) (int, bool) { return change(c.n, v), keep(c.n, v) })
		}, eachEntry(func(n, _, v int) (int, bool) { return change(n, v), keep(n, v) })).keepsFresh(),
		op1("keyedsingleton.FilterMapWithKey", func(c call, s S) entriesOf[L, F] {
			return keyedsingleton.FilterMapWithKey(s, func(k, v int) (int, bool) { return change(k, v), keep(k+c.n, v) })
		}, eachEntry(func(n, k, v int) (int, bool) { return change(k, v), keep(k+n, v) })).keepsFresh(),
		op1("keyedsingleton.InspectWithKey", func(_ call, s S) S { return keyedsingleton.InspectWithKey(s, func(int, int) {}) },
			func(_ int, c Content) Content { return c }).keepsFresh(),
		op1("keyedsingleton.TryMap, values", func(c call, s S) entriesOf[L, F] {
			values, _ := keyedsingleton.TryMap(s, func(v int) (int, error) { return tried(c.n, v) })
			return values
		}, eachEntry(func(n, _, v int) (int, bool) { return change(n, v), keep(n, v) })).keepsFresh(),
		op1("keyedsingleton.TryMap, failures", func(c call, s S) entriesOf[L, F] {
			_, failures := keyedsingleton.TryMap(s, func(v int) (int, error) { return tried(c.n, v) })
			return keyedsingleton.Map(failures, func(f dataflow.Failure[int]) int { return f.Value })
		}, eachEntry(func(n, _, v int) (int, bool) { return v, !keep(n, v) })),
		op1("keyedsingleton.Inspect", func(_ call, s S) S { return keyedsingleton.Inspect(s, func(int) {}) },
			func(_ int, c Content) Content { return c }).keepsFresh(),
		op1("keyedsingleton.CrossSingleton", func(c call, s S) entriesOf[L, M] {
			return keyedsingleton.Map(keyedsingleton.CrossSingleton(s, singleton.Of(place[L](c), c.n)), packed)
		}, eachEntry(func(n, _, v int) (int, bool) { return pack(v, n), true })),
		op1("keyedsingleton.KeyCount", func(_ call, s S) valueOf[L, C] { return keyedsingleton.KeyCount(s) },
			func(_ int, c Content) Content { return Content{Value: len(c.Entries)} }),
		op1("keyedsingleton.IntoSingleton", func(_ call, s S) valueOf[L, Keys] {
			return singleton.Map(keyedsingleton.IntoSingleton(s), func(v dataflow.View[int, int]) int {
				total := v.Len() * 1000
				for k, x := range v.All() {
					total += (k + 1) * x
				}
				return total
			})
		}, func(_ int, c Content) Content {
			total := len(c.Entries) * 1000
			for k, x := range c.Entries {
				total += (k + 1) * x
			}
			return Content{Value: total}
		}),
		op1("keyedsingleton.WithoutKeys", func(c call, s S) S {
			return keyedsingleton.WithoutKeys(s, dataflow.Of(place[L](c), c.n%4, 1))
		}, eachEntry(func(n, k, v int) (int, bool) { return v, k != n%4 && k != 1 })),
	}
}

// fixedOf returns the operators over entries that never change.
func fixedOf[L dataflow.Location, B interface {
	bounds.FixedValues[Keys]
	bounds.KeyedSingleton
}, Keys interface {
	bounds.Stream
	bounds.Altered[Keys]
}]() []operator {
	type S = entriesOf[L, B]
	return []operator{
		op1("keyedsingleton.Entries", func(_ call, s S) streamOf[L, Keys, loose] {
			return dataflow.Map(keyedsingleton.Entries(s), func(e dataflow.Entry[int, int]) int { return pack(e.Key, e.Value) })
		}, func(_ int, c Content) Content {
			return ofList(valuesIn(eachEntry(func(_, k, v int) (int, bool) { return pack(k, v), true })(0, c)))
		}).frees(),
		op1("keyedsingleton.Keys", func(_ call, s S) streamOf[L, Keys, loose] { return keyedsingleton.Keys(s) },
			func(_ int, c Content) Content { return ofList(slices.Collect(maps.Keys(c.Entries))) }).frees(),
		op1("keyedsingleton.Values", func(_ call, s S) streamOf[L, Keys, loose] { return keyedsingleton.Values(s) },
			func(_ int, c Content) Content { return ofList(valuesIn(c)) }).frees(),
		op1("keyedsingleton.IntoKeyedStream", func(_ call, s S) keyedOf[L, Keys, ordered] { return keyedsingleton.IntoKeyedStream(s) },
			func(_ int, c Content) Content {
				out := Content{Keyed: make(map[int][]int)}
				for k, v := range c.Entries {
					out.Keyed[k] = []int{v}
				}
				return out
			}),
	}
}

// permanentOf returns the operators over entries that are never removed.
func permanentOf[L dataflow.Location, B interface {
	bounds.Permanent[Keys]
	bounds.KeyedSingleton
}, Keys interface {
	bounds.Stream
	bounds.Altered[Keys]
}]() []operator {
	type S = entriesOf[L, B]
	return []operator{
		op1("keyedsingleton.MaxKey", func(_ call, s S) maybeOf[L, Keys] {
			return optionalMap(keyedsingleton.MaxKey(s), func(e dataflow.Entry[int, int]) int { return pack(e.Key, e.Value) })
		}, func(_ int, c Content) Content {
			return maybe(slices.Collect(maps.Keys(c.Entries)), func(ks []int) int {
				k := slices.Max(ks)
				return pack(k, c.Entries[k])
			})
		}),
	}
}

// growingOf returns the operators over entries whose values only grow.
func growingOf[L dataflow.Location, B bounds.GrowingValues[Keys], T bounds.Permanent[Keys], Keys interface {
	bounds.Stream
	bounds.Final[Out]
}, Out bounds.KeyedSingleton]() []operator {
	type S = entriesOf[L, B]
	return []operator{
		op1("keyedsingleton.ThresholdUniform", func(c call, s S) entriesOf[L, Out] { return keyedsingleton.ThresholdUniform(s, c.n) },
			eachEntry(func(n, _, v int) (int, bool) { return n, v >= n })),
		op2("keyedsingleton.Threshold", func(_ call, s S, t entriesOf[L, T]) entriesOf[L, Out] {
			return keyedsingleton.Threshold(s, t)
		}, func(_ int, c, t Content) Content {
			return eachEntry(func(_, k, v int) (int, bool) {
				limit, ok := t.Entries[k]
				return limit, ok && v >= limit
			})(0, c)
		}),
	}
}

// relations returns the operators over whole collections, inside slices.
func relations() []operator {
	return []operator{
		op2("keyedsingleton.JoinKeyedSingleton", func(_ call, a, b content) content {
			return keyedsingleton.Map(keyedsingleton.JoinKeyedSingleton(a, b), packed)
		}, func(_ int, a, b Content) Content {
			return eachEntry(func(_, k, v int) (int, bool) { w, ok := b.Entries[k]; return pack(v, w), ok })(0, a)
		}).keepsFresh(),
		op2("keyedsingleton.LookupKeyedSingleton", func(_ call, a, b content) content {
			return keyedsingleton.Map(keyedsingleton.LookupKeyedSingleton(a, b), func(p dataflow.Pair[int, dataflow.Maybe[int]]) int {
				return looked(p.First, p.Second.Value, p.Second.OK)
			})
		}, func(_ int, a, b Content) Content {
			return eachEntry(func(_, _, v int) (int, bool) { w, ok := b.Entries[v]; return looked(v, w, ok), true })(0, a)
		}).keepsFresh(),
		op2("keyedsingleton.JoinKeyedStream", func(_ call, a content, s pieces) pieces {
			return keyedMap(keyedsingleton.JoinKeyedStream(a, s), packed)
		}, func(_ int, a, s Content) Content {
			return within(func(_, k int, vs []int) (out []int) {
				if w, ok := a.Entries[k]; ok {
					for _, v := range vs {
						out = append(out, pack(w, v))
					}
				}
				return out
			})(0, s)
		}),
		op2("keyedsingleton.LookupKeyedStream", func(_ call, a content, s pieces) pieces {
			return keyedMap(keyedsingleton.LookupKeyedStream(a, s), func(p dataflow.Pair[int, dataflow.Maybe[int]]) int {
				return looked(p.First, p.Second.Value, p.Second.OK)
			})
		}, func(_ int, a, s Content) Content {
			out := Content{Keyed: make(map[int][]int)}
			for k, v := range a.Entries {
				for _, w := range s.Keyed[v] {
					out.Keyed[k] = append(out.Keyed[k], looked(v, w, true))
				}
				if len(s.Keyed[v]) == 0 {
					out.Keyed[k] = []int{looked(v, 0, false)}
				}
			}
			return out
		}),
		op2("keyedsingleton.Get", func(_ call, a content, k value) maybeOf[inside, bounds.Bounded] {
			return keyedsingleton.Get(a, singleton.Map(k, func(k int) int { return k % 4 }))
		}, func(_ int, a, k Content) Content {
			v, ok := a.Entries[k.Value%4]
			return Content{Value: v, OK: ok}
		}),
		op2("keyedsingleton.WithoutKeys", func(_ call, a content, ks piece) content { return keyedsingleton.WithoutKeys(a, ks) },
			func(_ int, a, ks Content) Content {
				return eachEntry(func(_, k, v int) (int, bool) { return v, !slices.Contains(ks.List, k) })(0, a)
			}).keepsFresh(),
		op2("keyedsingleton.CrossSingleton", func(_ call, a content, x value) content {
			return keyedsingleton.Map(keyedsingleton.CrossSingleton(a, x), packed)
		}, func(_ int, a, x Content) Content {
			return eachEntry(func(_, _, v int) (int, bool) { return pack(v, x.Value), true })(0, a)
		}).keepsFresh(),
		op2("keyedstream.CrossSingleton", func(_ call, s pieces, x value) pieces {
			return keyedMap(crossKeyed(s, x), packed)
		}, func(_ int, s, x Content) Content {
			return eachValue(func(_, _, v int) []int { return []int{pack(v, x.Value)} })(0, s)
		}),
		op2("keyedstream.AntiJoin", func(_ call, s pieces, ks piece) pieces { return antiJoin(s, ks) },
			func(_ int, s, ks Content) Content {
				return within(func(_, k int, vs []int) []int { return slices.Repeat(vs, count(!slices.Contains(ks.List, k))) })(0, s)
			}),
		op2("keyedstream.Chain", func(_ call, a, b pieces) pieces { return chainKeyed(a, b) },
			func(_ int, a, b Content) Content { return together(a, b) }),
	}
}

// looked is the result of a lookup.
func looked(v, w int, ok bool) int {
	if !ok {
		return 22 - v%5
	}
	return pack(v, w)
}
