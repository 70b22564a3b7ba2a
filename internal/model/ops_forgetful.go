package model

import (
	"slices"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// numbers returns the sequence of keys: the client that gave a key, and its number there.
func numbers(n int) dataflow.Sequence[int] {
	clients := 1 + n%3
	return dataflow.Sequenced(func(k int) (client int, seq uint64) { return k % clients, uint64(k / clients) })
}

// forgetfuls returns the operators that forget keys when they are done with them. Which keys
// they forget depends on the order of the values of different keys, so they are used over a
// stream with an order.
func forgetfuls() []operator {
	return []operator{
		op1("keyedstream.FirstWithin", func(c call, s stream) streams {
			ks := dataflow.KeyBy(s, func(x int) int { return keyOf(c.n, x) })
			return keyedsingleton.IntoKeyedStream(keyedstream.FirstWithin(ks, keyedstream.Retain{Keys: retained(c.n)}, why))
		}, remembering(func(_ int, vs []int) (int, bool) { return vs[0], true })),
		op1("keyedstream.Machine, emitted", func(c call, s streams) streams {
			emitted, _ := keyedstream.Machine(s, func() int { return 0 }, lifeStep[*keyedstream.Turn[int, int, int]](c.n))
			return emitted
		}, within(func(n, _ int, vs []int) []int { return livedIn(n, vs, false) })),
		op1("keyedstream.Machine, decided", func(c call, s streams) streams {
			_, decided := keyedstream.Machine(s, func() int { return 0 }, lifeStep[*keyedstream.Turn[int, int, int]](c.n))
			return keyedsingleton.IntoKeyedStream(decided)
		}, within(func(n, _ int, vs []int) []int { return livedIn(n, vs, true) })),
		op1("keyedstream.TimedMachine, emitted", func(c call, s streams) streams {
			emitted, _ := keyedstream.TimedMachine(s, func() int { return 0 }, lifeStep[*keyedstream.TimedTurn[int, int, int]](c.n),
				func(*int, keyedstream.Timer, *keyedstream.TimedTurn[int, int, int]) {}, why)
			return emitted
		}, within(func(n, _ int, vs []int) []int { return livedIn(n, vs, false) })),
		op1("keyedstream.FoldEarlyStopWithin", func(c call, s stream) streams {
			ks := dataflow.KeyBy(s, func(x int) int { return keyOf(c.n, x) })
			return keyedsingleton.IntoKeyedStream(keyedstream.FoldEarlyStopWithin(ks, func() int { return 0 }, func(acc *int, v int) bool {
				*acc += v
				return *acc > c.n
			}, keyedstream.Retain{Keys: retained(c.n)}, why))
		}, remembering(func(n int, vs []int) (int, bool) { return sum(vs), sum(vs) > n })),
	}
}

// lifeStep is the step of a machine that adds up values, emits the sum, decides on the second
// one and forgets its key when the sum is large.
func lifeStep[T interface {
	Emit(int)
	Decide(int)
	Forget()
}](n int) func(sum *int, v int, do T) {
	return func(sum *int, v int, do T) {
		before := *sum
		*sum += v + 1
		do.Emit(*sum)
		if before > 0 {
			do.Decide(*sum)
		}
		if *sum > 10+n {
			do.Forget()
		}
	}
}

// livedIn returns what lifeStep emits, or decides, for the values of a key.
func livedIn(n int, vs []int, decided bool) (out []int) {
	sum, begun, has := 0, false, false
	for _, v := range vs {
		begun, sum = sum > 0, sum+v+1
		if !decided || begun && !has {
			out = append(out, sum)
			has = begun
		}
		if sum > 10+n {
			sum, has = 0, false
		}
	}
	return out
}

func retained(n int) int { return 1 + n%2 }

// remembering makes the evaluation of an operator that is done with a key when f says so for
// the values since the key was last forgotten. The operator remembers that for a while:
// completed keys are grouped into blocks, and it remembers those of the last block and the
// one before it.
func remembering(f func(n int, vs []int) (int, bool)) func(int, Content) Content {
	return func(n int, c Content) Content {
		out := Content{Keyed: make(map[int][]int)}
		var completed []int // keys, in order
		since := make(map[int][]int)
		block := func(i int) int { return i / retained(n) }
		for _, x := range c.List {
			k := keyOf(n, x)
			if last := len(completed) - 1 - slices.Index(reversed(completed), k); slices.Contains(completed, k) && block(last) >= block(len(completed)-1)-1 {
				continue
			}
			since[k] = append(since[k], x)
			if v, done := f(n, since[k]); done {
				out.Keyed[k] = append(out.Keyed[k], v)
				completed = append(completed, k)
				delete(since, k)
			}
		}
		return out
	}
}

func reversed(xs []int) []int {
	ys := slices.Clone(xs)
	slices.Reverse(ys)
	return ys
}
