package model

import (
	"testing"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

func double(x int) int { return 2 * x }
func inc(x int) int    { return x + 1 }
func odd(x int) bool   { return x%2 == 1 }
func small(x int) bool { return x < 7 }
func zero() int        { return 0 }
func add(acc *int, x int) {
	*acc += x
}

// running is the sum of each key. A small sum appears and disappears as it grows.
func (l *lab) running() entriesOf[here, bounds.MonotonicKeys] { return keyedstream.Sum(l.ks) }

// TestLaws checks the algebra of the operators. Unlike the model it needs no second definition of
// an operator, only how two of them relate. So it finds errors that the model shares.
func TestLaws(t *testing.T) {
	for _, laws := range [][]law{streamLaws, keyedLaws, entryLaws, sliceLaws} {
		for _, l := range laws {
			t.Run(l.name, func(t *testing.T) { hold(t, l) })
		}
	}
}

var streamLaws = []law{
	{"two maps are one", "each element goes through both functions alone, and Map keeps the order",
		func(l *lab) (a, b look) {
			return inOrder(dataflow.Map(dataflow.Map(l.xs, double), inc)), inOrder(dataflow.Map(l.xs, func(x int) int { return inc(double(x)) }))
		}},
	{"a filter after a map is a filter of what the map will make", "what is kept depends on the mapped element only, whenever it is looked at",
		func(l *lab) (a, b look) {
			return inOrder(dataflow.Filter(dataflow.Map(l.xs, inc), odd)),
				inOrder(dataflow.Map(dataflow.Filter(l.xs, func(x int) bool { return odd(inc(x)) }), inc))
		}},
	{"FilterMap is Filter and Map", "it is one call where they are two",
		func(l *lab) (a, b look) {
			return inOrder(dataflow.FilterMap(l.xs, func(x int) (int, bool) { return inc(x), odd(x) })), inOrder(dataflow.Map(dataflow.Filter(l.xs, odd), inc))
		}},
	{"a FlatMap that emits once is Map", "what it emits for an element stands where the element stood",
		func(l *lab) (a, b look) {
			return inOrder(dataflow.FlatMap(l.xs, func(x int, emit func(int)) { emit(inc(x)) })), inOrder(dataflow.Map(l.xs, inc))
		}},
	{"Merge commutes up to order", "a merged stream is the union of two bags",
		func(l *lab) (a, b look) { return bag(dataflow.Merge(l.xs, l.ys)), bag(dataflow.Merge(l.ys, l.xs)) }},
	{"Merge associates up to order", "a union of bags does",
		func(l *lab) (a, b look) {
			third := dataflow.Map(l.xs, inc)
			return bag(dataflow.Merge(dataflow.Merge(l.xs, l.ys), third)), bag(dataflow.Merge(l.xs, dataflow.Merge(l.ys, third)))
		}},
	{"a count of two merged is the sum of two counts", "each element is counted once, wherever",
		func(l *lab) (a, b look) {
			return valueNow(l, dataflow.Count(dataflow.Merge(l.xs, l.ys))),
				plus(singleton.Output(dataflow.Count(l.xs), l.name()), singleton.Output(dataflow.Count(l.ys), l.name()))
		}},
	{"Unique twice is Unique", "after the first nothing comes twice",
		func(l *lab) (a, b look) {
			return inOrder(dataflow.Unique(dataflow.Unique(l.xs))), inOrder(dataflow.Unique(l.xs))
		}},
	{"Unique of a stream merged with itself is Unique of it", "what comes again changes nothing",
		func(l *lab) (a, b look) {
			return bag(dataflow.Unique(dataflow.Merge(l.xs, l.xs))), bag(dataflow.Unique(l.xs))
		}},
	{"Limit of Limit is the smaller Limit", "a prefix of a prefix is the shorter one",
		func(l *lab) (a, b look) {
			return inOrder(dataflow.Limit(dataflow.Limit(l.xs, 5), 3)), inOrder(dataflow.Limit(l.xs, 3))
		}},
	{"Limit is what Enumerate numbers below n", "both speak of the first n elements",
		func(l *lab) (a, b look) {
			numbered := dataflow.Filter(dataflow.Enumerate(l.xs), func(p dataflow.Pair[int, int]) bool { return p.First < 4 })
			return inOrder(dataflow.Limit(l.xs, 4)), inOrder(dataflow.Map(numbered, func(p dataflow.Pair[int, int]) int { return p.Second }))
		}},
	{"both sides of a Partition are all", "each element satisfies the predicate or does not",
		func(l *lab) (a, b look) {
			yes, no := dataflow.Partition(l.xs, odd)
			return bag(dataflow.Merge(yes, no)), bag(l.xs)
		}},
	{"each side of a Partition is a Filter", "the sides have nothing in common",
		func(l *lab) (a, b look) {
			_, no := dataflow.Partition(l.xs, odd)
			return inOrder(no), inOrder(dataflow.Filter(l.xs, func(x int) bool { return !odd(x) }))
		}},
	{"the last that a Scan emits is the Fold", "both go through the same steps",
		func(l *lab) (a, b look) {
			scanned := dataflow.Scan(l.xs, zero, func(acc *int, x int, emit func(int)) { *acc = fold(*acc, x); emit(*acc) })
			last := dataflow.Fold(scanned, zero, func(acc *int, x int) { *acc = x })
			return valueNow(l, last), valueNow(l, dataflow.Fold(l.xs, zero, func(acc *int, x int) { *acc = fold(*acc, x) }))
		}},
	{"Sum is a Fold that adds", "addition forgets the order",
		func(l *lab) (a, b look) {
			return valueNow(l, dataflow.Sum(l.xs)), valueNow(l, dataflow.Fold(l.xs, zero, add))
		}},
}

var keyedLaws = []law{
	{"First is a FoldEarlyStop that stops at once", "the first step completes the key with its first value",
		func(l *lab) (a, b look) {
			early := keyedstream.FoldEarlyStop(l.ks, zero, func(acc *int, v int) bool { *acc = v; return true })
			return contentNow(l, keyedstream.First(l.ks)), contentNow(l, early)
		}},
	{"First is Limit(1)", "both keep the first value of each key for good",
		func(l *lab) (a, b look) {
			return perKey(keyedsingleton.IntoKeyedStream(keyedstream.First(l.ks))), perKey(keyedstream.Limit(l.ks, 1))
		}},
	{"a FoldEarlyStop that never stops is empty", "a key that never completes never appears",
		func(l *lab) (a, b look) {
			never := keyedstream.FoldEarlyStop(l.ks, zero, func(acc *int, v int) bool { *acc += v; return false })
			return contentNow(l, never), contentNow(l, keyedstream.First(keyedstream.Filter(l.ks, func(int) bool { return false })))
		}},
	{"FoldEarlyStop is the first state of a Scan that is done", "it folds up to there and ignores the rest",
		func(l *lab) (a, b look) {
			early := keyedstream.FoldEarlyStop(l.ks, zero, func(acc *int, v int) bool { *acc += v; return *acc > 9 })
			sums := keyedstream.Scan(l.ks, zero, func(acc *int, v int, emit func(int)) { *acc += v; emit(*acc) })
			return contentNow(l, early), contentNow(l, keyedstream.First(keyedstream.Filter(sums, func(x int) bool { return x > 9 })))
		}},
	{"the decisions of a ScanFirst are the First of a Scan", "it decides once, in the table of the Scan",
		func(l *lab) (a, b look) {
			_, decided := keyedstream.ScanFirst(l.ks, zero, func(acc *int, v int, _ func(int)) (int, bool) { *acc += v; return *acc, *acc > 9 })
			sums := keyedstream.Scan(l.ks, zero, func(acc *int, v int, emit func(int)) { *acc += v; emit(*acc) })
			return contentNow(l, decided), contentNow(l, keyedstream.First(keyedstream.Filter(sums, func(x int) bool { return x > 9 })))
		}},
	{"what a ScanFirst emits is a Scan", "that a key is decided does not stop it",
		func(l *lab) (a, b look) {
			emitted, _ := keyedstream.ScanFirst(l.ks, zero, func(acc *int, v int, emit func(int)) (int, bool) { *acc += v; emit(*acc); return *acc, *acc > 9 })
			sums := keyedstream.Scan(l.ks, zero, func(acc *int, v int, emit func(int)) { *acc += v; emit(*acc) })
			return perKey(emitted), perKey(sums)
		}},
	{"Keyed of Entries is the identity", "an entry says its key and its value and no more",
		func(l *lab) (a, b look) { return perKeyBag(dataflow.Keyed(keyedstream.Entries(l.ks))), perKeyBag(l.ks) }},
	{"the values of a KeyBy are what it was made of", "a key is added and taken off",
		func(l *lab) (a, b look) {
			return bag(keyedstream.Values(dataflow.KeyBy(l.xs, func(x int) int { return x % 3 }))), bag(l.xs)
		}},
	{"Join is symmetric up to the pair", "a pair is made of one value of each side, whichever came first",
		func(l *lab) (a, b look) {
			swap := func(p dataflow.Pair[int, int]) dataflow.Pair[int, int] {
				return dataflow.Pair[int, int]{First: p.Second, Second: p.First}
			}
			return perKeyBag(keyedstream.Join(l.ks, l.js)), perKeyBag(keyedstream.Map(keyedstream.Join(l.js, l.ks), swap))
		}},
	{"a Join has the product of the counts", "each value meets each",
		func(l *lab) (a, b look) {
			one := func(ks streams) dataflow.KeyedStream[int, int, here, bounds.Unbounded, ordered, once] {
				return keyedstream.Map(ks, func(int) int { return 1 })
			}
			return contentNow(l, keyedstream.Count(keyedstream.Join(l.ks, l.js))), contentNow(l, keyedstream.Count(keyedstream.Join(one(l.ks), one(l.js))))
		}},
	{"Unique of a key twice is Unique", "after the first no pair of key and value comes twice",
		func(l *lab) (a, b look) {
			return perKey(keyedstream.Unique(keyedstream.Unique(l.ks))), perKey(keyedstream.Unique(l.ks))
		}},
	{"Keys is the keys of First", "a key appears with its first value",
		func(l *lab) (a, b look) {
			return bag(keyedstream.Keys(l.ks)), bag(keyedsingleton.Keys(keyedstream.First(l.ks)))
		}},
	{"Max is Min seen from below", "turning the order around swaps the two",
		func(l *lab) (a, b look) {
			minus := func(v int) int { return -v }
			return contentNow(l, keyedstream.Max(l.ks)), contentNow(l, keyedsingleton.Map(keyedstream.Min(keyedstream.Map(l.ks, minus)), minus))
		}},
	{"Count is a Sum of ones", "each value counts one",
		func(l *lab) (a, b look) {
			return contentNow(l, keyedstream.Count(l.ks)), contentNow(l, keyedstream.Sum(keyedstream.Map(l.ks, func(int) int { return 1 })))
		}},
	{"Fold of all is Fold of what is in order", "a Filter that keeps everything is no filter",
		func(l *lab) (a, b look) {
			step := func(acc *int, v int) { *acc = fold(*acc, v) }
			return contentNow(l, keyedstream.Fold(l.ks, zero, step)), contentNow(l, keyedstream.Fold(keyedstream.Filter(l.ks, func(int) bool { return true }), zero, step))
		}},
}

var entryLaws = []law{
	{"KeyCount is the size of IntoSingleton where keys are added", "both look at the same keys",
		func(l *lab) (a, b look) {
			return valueNow(l, keyedsingleton.KeyCount(l.entries)), valueNow(l, singleton.Map(keyedsingleton.IntoSingleton(l.entries), dataflow.View[int, int].Len))
		}},
	{"KeyCount is the size of IntoSingleton where keys are removed", "a removal is seen by everything that is made of the collection",
		func(l *lab) (a, b look) {
			ks := keyedsingleton.Filter(l.running(), odd)
			return valueNow(l, keyedsingleton.KeyCount(ks)), valueNow(l, singleton.Map(keyedsingleton.IntoSingleton(ks), dataflow.View[int, int].Len))
		}},
	{"two complementary filters share the keys", "an entry moves from one to the other with its value, and is always in one",
		func(l *lab) (a, b look) {
			yes := keyedsingleton.KeyCount(keyedsingleton.Filter(l.running(), small))
			no := keyedsingleton.KeyCount(keyedsingleton.Filter(l.running(), func(x int) bool { return !small(x) }))
			return plus(singleton.Output(yes, l.name()), singleton.Output(no, l.name())), valueNow(l, keyedsingleton.KeyCount(l.running()))
		}},
	{"a Filter after a Map, where entries come and go, is a FilterMap", "an entry is there if and only if its value now satisfies the filter",
		func(l *lab) (a, b look) {
			both := keyedsingleton.FilterMap(l.running(), func(x int) (int, bool) { return inc(x), odd(inc(x)) })
			return contentNow(l, keyedsingleton.Filter(keyedsingleton.Map(l.running(), inc), odd)), contentNow(l, both)
		}},
	{"two filters, where entries come and go, are one", "an entry that one of them drops is dropped",
		func(l *lab) (a, b look) {
			one := keyedsingleton.Filter(l.running(), func(x int) bool { return odd(x) && small(x) })
			return contentNow(l, keyedsingleton.Filter(keyedsingleton.Filter(l.running(), odd), small)), contentNow(l, one)
		}},
	{"Entries under their keys are the collection again", "each entry is one element, once",
		func(l *lab) (a, b look) {
			again := keyedstream.First(keyedsingleton.IntoKeyedStream(l.entries))
			return contentNow(l, again), contentNow(l, l.entries)
		}},
	{"ThresholdUniform is what a Filter of a growing value keeps", "what was reached stays reached",
		func(l *lab) (a, b look) {
			count := keyedstream.Count(l.ks)
			reached := keyedsingleton.Map(keyedsingleton.Filter(count, func(n int) bool { return n >= 3 }), func(int) int { return 3 })
			return contentNow(l, keyedsingleton.ThresholdUniform(count, 3)), contentNow(l, reached)
		}},
	{"a Threshold of the same limit for all is ThresholdUniform", "it does not matter where the limit comes from, or when",
		func(l *lab) (a, b look) {
			limits := keyedsingleton.Map(keyedstream.First(l.js), func(int) int { return 2 })
			uniform := keyedsingleton.ThresholdUniform(keyedstream.Count(l.ks), 2)
			known := keyedsingleton.Threshold(uniform, limits) // drops what has no limit yet
			return contentNow(l, keyedsingleton.Threshold(keyedstream.Count(l.ks), limits)), contentNow(l, known)
		}},
}

var sliceLaws = []law{
	{"a fold of batches is a fold of all", "each element is in one batch, and batches come in order",
		func(l *lab) (a, b look) {
			total, keep := slice.State(l.tick, 0)
			batch := dataflow.Fold(slice.Batch(l.tick, l.xs, "folded again"), func() []int { return nil }, func(acc *[]int, x int) { *acc = append(*acc, x) })
			next := singleton.Map(singleton.Zip(total, batch), func(p dataflow.Pair[int, []int]) int {
				for _, x := range p.Second {
					p.First = fold(p.First, x)
				}
				return p.First
			})
			keep(next)
			return valueNow(l, slice.Latest(next, 0)), valueNow(l, dataflow.Fold(l.xs, zero, func(acc *int, x int) { *acc = fold(*acc, x) }))
		}},
	{"a snapshot is the value at the cut", "every step ends with the cut, so that the latest snapshot is the latest value",
		func(l *lab) (a, b look) {
			return valueNow(l, slice.Latest(slice.Snapshot(l.tick, dataflow.Sum(l.xs), "compared"), 0)), valueNow(l, dataflow.Sum(l.xs))
		}},
	{"a snapshot of entries is the content at the cut", "the same, where entries come and go",
		func(l *lab) (a, b look) {
			ks := keyedsingleton.Filter(l.running(), odd)
			at := keyedsingleton.IntoSingleton(slice.SnapshotEntries(l.tick, ks, "compared"))
			text := func(v dataflow.View[int, int]) string { return v.String() }
			return valueNow(l, slice.Latest(singleton.Map(at, text), "{}")), valueNow(l, singleton.Map(keyedsingleton.IntoSingleton(ks), text))
		}},
	{"each key is in one batch", "an entry is let in once and never again",
		func(l *lab) (a, b look) {
			fresh := slice.BatchEntries(l.tick, l.entries, "compared")
			return bag(slice.Emit(keyedsingleton.Keys(fresh))), bag(keyedsingleton.Keys(l.entries))
		}},
	{"what is let in and out again is what it was", "the slice adds nothing and drops nothing",
		func(l *lab) (a, b look) {
			return contentNow(l, slice.EmitEntries(slice.BatchEntries(l.tick, l.entries, "compared"))), contentNow(l, l.entries)
		}},
	{"batches of a keyed stream keep the order of each key", "they are cut from it in order",
		func(l *lab) (a, b look) {
			return perKey(slice.EmitKeyed(slice.BatchKeyed(l.tick, l.ks, "compared"))), perKey(l.ks)
		}},
	{"a join of a collection with itself has each value twice", "each key meets itself",
		func(l *lab) (a, b look) {
			fresh := slice.BatchEntries(l.tick, l.entries, "compared")
			twice := keyedsingleton.Map(fresh, func(v int) dataflow.Pair[int, int] { return dataflow.Pair[int, int]{First: v, Second: v} })
			return contentNow(l, slice.EmitEntries(keyedsingleton.JoinKeyedSingleton(fresh, fresh))), contentNow(l, slice.EmitEntries(twice))
		}},
	{"with and without some keys is everything", "a key is among the keys or is not",
		func(l *lab) (a, b look) {
			fresh := slice.BatchKeyed(l.tick, l.ks, "compared")
			known := keyedstream.First(slice.BatchKeyed(l.tick, l.js, "compared"))
			with := keyedstream.Map(keyedsingleton.JoinKeyedStream(known, fresh), func(p dataflow.Pair[int, int]) int { return p.Second })
			without := keyedstream.AntiJoin(fresh, keyedsingleton.Keys(known))
			return perKeyBag(slice.EmitKeyed(keyedstream.Merge(with, without))), perKeyBag(slice.EmitKeyed(fresh))
		}},
	{"Sort forgets how its stream was merged", "what is sorted is a bag",
		func(l *lab) (a, b look) {
			x, y := slice.Batch(l.tick, l.xs, "compared"), slice.Batch(l.tick, l.ys, "compared")
			return inOrder(slice.Emit(dataflow.Sort(dataflow.Merge(x, y)))), inOrder(slice.Emit(dataflow.Sort(dataflow.Merge(y, x))))
		}},
	{"Chain in a slice is one after the other", "the second is held back until the first is over",
		func(l *lab) (a, b look) {
			x, y := slice.Batch(l.tick, l.xs, "compared"), slice.Batch(l.tick, l.ys, "compared")
			list := func(s piece) dataflow.Singleton[[]int, inside, bounds.Bounded] {
				return dataflow.Fold(s, func() []int { return nil }, func(acc *[]int, x int) { *acc = append(*acc, x) })
			}
			both := singleton.Map(singleton.Zip(list(x), list(y)), func(p dataflow.Pair[[]int, []int]) []int {
				return append(append([]int(nil), p.First...), p.Second...)
			})
			flat := dataflow.FlatMap(singleton.IntoStream(both), func(xs []int, emit func(int)) {
				for _, x := range xs {
					emit(x)
				}
			})
			return inOrder(slice.Emit(dataflow.Chain(x, y))), inOrder(slice.Emit(flat))
		}},
	{"state is what the last run kept", "a sum of all batches, kept from run to run, is the sum of all",
		func(l *lab) (a, b look) {
			kept, keep := slice.StateEntries[int, int](l.tick)
			fresh := slice.BatchKeyed(l.tick, l.ks, "compared")
			sums := keyedstream.Sum(keyedstream.Chain(keyedsingleton.IntoKeyedStream(kept), fresh))
			keep(sums)
			text := func(v dataflow.View[int, int]) string { return v.String() }
			return valueNow(l, slice.Latest(singleton.Map(keyedsingleton.IntoSingleton(sums), text), "{}")),
				valueNow(l, singleton.Map(keyedsingleton.IntoSingleton(l.running()), text))
		}},
}
