package simprop

import (
	"fmt"
	"iter"
	"slices"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/prop"

	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
)

// Small is the property that the specification that spec returns holds in every schedule of every
// small case: those with at most n operations of at most two clients. For each generator there are
// operations with two keys and two values, the first different ones that the generator gives; to
// choose them, use gen.OneConstOf. If the property holds, gopter reports that it is proved, which is
// true for these cases. Each case is decided as in [Holds].
//
// The number of cases grows exponentially with n: for one shared port with keys and values there are
// 159 cases of at most 3 operations, and 807 of at most 4. Most mistakes need no more, and the
// smallest cases are tried first.
func Small[P any](n int, spec func(c Case[P]) sim.Spec[P], ports []PortGen[P], opts ...sim.Option) gopter.Prop {
	engine.Given("simprop.Small", spec)
	if n < 1 || len(ports) == 0 {
		engine.Misuse("simprop.Small", "%d operations at %d ports are no cases", n, len(ports))
	}
	return func(params *gopter.GenParameters) *gopter.PropResult {
		cases := 0
		for c := range small(n, ports) {
			cases++
			h := newHolding(spec, opts)
			if result := prop.ForAll(h.check, caseGen(func(*gopter.GenParameters) Case[P] { return c }))(params); !result.Success() {
				return result
			}
		}
		return &gopter.PropResult{Status: gopter.PropProof, Labels: []string{fmt.Sprintf("%d cases of at most %d operations", cases, n)}}
	}
}

// small iterates over all cases with at most two clients and at most n operations, those with few
// operations first. For each generator it takes the operations with up to two keys and up to two
// values. Cases that differ only in the names of their clients count as one.
func small[P any](n int, ports []PortGen[P]) iter.Seq[Case[P]] {
	var alphabet []operation[P]
	var last []bool // by letter
	for _, g := range ports {
		for _, op := range g.letters() {
			alphabet, last = append(alphabet, op), append(last, g.last)
		}
	}
	return func(yield func(Case[P]) bool) {
		for size := range n + 1 {
			for word := range words(size, len(alphabet)) {
				for cut := size; 2*cut >= size; cut-- { // the first client has at least as many operations as the second
					first, second := word[:cut], word[cut:]
					if len(first) == len(second) && slices.Compare(first, second) > 0 {
						continue
					}
					if !inPlace(first, last) || !inPlace(second, last) {
						continue
					}
					c := Case[P]{[][]operation[P]{spell(first, alphabet), spell(second, alphabet)}, sim.Faults{}}.withoutIdle()
					if c.owned() && !yield(c) {
						return
					}
				}
			}
		}
	}
}

// words iterates over all words of the given length.
func words(length, letters int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		word := make([]int, length)
		for {
			if !yield(slices.Clone(word)) {
				return
			}
			i := length - 1
			for ; i >= 0; i-- {
				if word[i]++; word[i] < letters {
					break
				}
				word[i] = 0
			}
			if i < 0 {
				return
			}
		}
	}
}

// inPlace reports whether each letter that may only come last does.
func inPlace(word []int, last []bool) bool {
	for i, x := range word {
		if last[x] && i < len(word)-1 {
			return false
		}
	}
	return true
}

func spell[P any](word []int, alphabet []operation[P]) []operation[P] {
	ops := make([]operation[P], len(word))
	for i, x := range word {
		ops[i] = alphabet[x]
	}
	return ops
}

// attempts is the number of times a generator is asked for a second value.
const attempts = 50

// letters returns the operations of g with up to two keys and up to two values, the first ones that
// its generators give. They are the same each time.
func (g PortGen[P]) letters() []operation[P] {
	keys, values := two(g.made.keys), two(g.made.values)
	var all []operation[P]
	for _, k := range keys {
		for _, v := range values {
			all = append(all, operation[P]{g.made, k, v})
		}
	}
	if len(all) == 0 {
		engine.Misuse("simprop.Small", "the generator of %s has given nothing in %d attempts", g.made.name, attempts)
	}
	return all
}

// two returns up to two different values of a generator, or one empty argument if g is nil.
func two(g gopter.Gen) []argument {
	if g == nil {
		return []argument{{}}
	}
	params := gopter.DefaultGenParameters().CloneWithSeed(1)
	var all []argument
	for range attempts {
		a, ok := argumentOf(g(params))
		if !ok || len(all) > 0 && digest.Of(all[0].value) == digest.Of(a.value) {
			continue
		}
		if all = append(all, a); len(all) == 2 {
			break
		}
	}
	return all
}
