package model

import (
	"cmp"
	"slices"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

func lookedUp(p dataflow.Pair[int, dataflow.Maybe[int]]) int {
	return looked(p.First, p.Second.Value, p.Second.OK)
}

func sortedPieces(_ int, c Content) Content {
	return within(func(_, _ int, vs []int) []int { return slices.Sorted(slices.Values(vs)) })(0, c)
}

// findings returns the operators that look something up in whole keyed streams, or sort
// them, inside slices.
func findings() []operator {
	type untidy = keyedOf[inside, bounds.Bounded, loose]
	return []operator{
		op2("keyedstream.LookupKeyedSingleton", func(_ call, s pieces, b content) pieces {
			return keyedMap(keyedstream.LookupKeyedSingleton(s, b), lookedUp)
		}, func(_ int, s, b Content) Content {
			return eachValue(func(_, _, v int) []int { w, ok := b.Entries[v]; return []int{looked(v, w, ok)} })(0, s)
		}),
		op2("keyedstream.LookupKeyedStream", func(_ call, s, t pieces) pieces {
			return keyedMap(keyedstream.LookupKeyedStream(s, t), lookedUp)
		}, func(_ int, s, t Content) Content {
			return eachValue(func(_, _, v int) (out []int) {
				for _, w := range t.Keyed[v] {
					out = append(out, looked(v, w, true))
				}
				if len(out) == 0 {
					out = []int{looked(v, 0, false)}
				}
				return out
			})(0, s)
		}),
		op2("keyedstream.Get", func(_ call, s pieces, k value) piece {
			return keyedstream.Get(s, singleton.Map(k, func(k int) int { return k % 4 }))
		}, func(_ int, s, k Content) Content { return ofList(s.Keyed[k.Value%4]) }),
		op1("keyedstream.Sort", func(_ call, s untidy) pieces { return keyedstream.Sort(s) }, sortedPieces),
		op1("keyedstream.Sort", func(_ call, s pieces) pieces { return keyedstream.Sort(s) }, sortedPieces),
		op1("keyedstream.SortFunc", func(_ call, s untidy) pieces {
			return keyedstream.SortFunc(s, func(a, b int) int { return cmp.Compare(b, a) }, "integers that are equal are the same")
		}, func(_ int, c Content) Content {
			return within(func(_, _ int, vs []int) []int {
				vs = slices.Sorted(slices.Values(vs))
				slices.Reverse(vs)
				return vs
			})(0, c)
		}),
		op2("dataflow.Cross", func(_ call, a, b piece) streamOf[inside, bounds.Bounded, loose] {
			return dataflow.Map(dataflow.Cross(a, b), packed)
		}, func(_ int, a, b Content) Content {
			return each(func(_, x int) (out []int) {
				for _, y := range b.List {
					out = append(out, pack(x, y))
				}
				return out
			})(0, a)
		}),
	}
}
