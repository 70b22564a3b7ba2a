package keyed

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestSequenceAgainstMap adds numbers in many patterns and compares the sequence with a map.
func TestSequenceAgainstMap(t *testing.T) {
	type number struct {
		c string
		n uint64
	}
	patterns := map[string]func(r *rand.Rand, i int) uint64{
		"counting from 0":     func(_ *rand.Rand, i int) uint64 { return uint64(i) },
		"counting from 1":     func(_ *rand.Rand, i int) uint64 { return uint64(i + 1) },
		"counting from far":   func(_ *rand.Rand, i int) uint64 { return 1<<40 + 17 + uint64(i) },
		"counting down":       func(_ *rand.Rand, i int) uint64 { return 5000 - uint64(i) },
		"counting down to 0":  func(_ *rand.Rand, i int) uint64 { return uint64(max(2000-i, 0)) },
		"up to the last":      func(_ *rand.Rand, i int) uint64 { return ^uint64(0) - 2500 + uint64(min(i, 2500)) },
		"almost in order":     func(r *rand.Rand, i int) uint64 { return uint64(i + r.IntN(200)) },
		"with gaps":           func(r *rand.Rand, i int) uint64 { return uint64(i + i/100) },
		"every third":         func(_ *rand.Rand, i int) uint64 { return uint64(3 * i) },
		"even, then odd":      func(_ *rand.Rand, i int) uint64 { return uint64(2*(i%1500) + i/1500) },
		"from the middle out": func(_ *rand.Rand, i int) uint64 { return uint64(2000 + (i+1)/2*(1-2*(i%2))) },
		"few, at random":      func(r *rand.Rand, _ int) uint64 { return uint64(r.IntN(2000)) },
		"anywhere":            func(r *rand.Rand, _ int) uint64 { return r.Uint64() },
	}
	for name, next := range patterns {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(*seedFlag), 5))
			s := NewSequence[string]()
			for round := range 2 {
				model := make(map[number]bool)
				for i := range 3000 {
					for c := range 3 {
						x := number{fmt.Sprint("client ", c), next(r, i)}
						if got := s.Has(x.c, x.n); got != model[x] {
							t.Fatalf("round %d: Has(%q, %d) = %v after %d; %s", round, x.c, x.n, got, i, rerun(t))
						}
						if got := s.Add(x.c, x.n); got == model[x] {
							t.Fatalf("round %d: Add(%q, %d) = %v after %d; %s", round, x.c, x.n, got, i, rerun(t))
						}
						model[x] = true
						for _, d := range []uint64{1, 63, 64, 65, uint64(r.IntN(3000)), -uint64(r.IntN(3000))} {
							y := number{x.c, x.n + d}
							if got := s.Has(y.c, y.n); got != model[y] {
								t.Fatalf("round %d: Has(%q, %d) = %v after %d; %s", round, y.c, y.n, got, i, rerun(t))
							}
						}
					}
				}
				for x := range model {
					if !s.Has(x.c, x.n) || s.Add(x.c, x.n) {
						t.Fatalf("%v is not there; %s", x, rerun(t))
					}
				}
				s.Clear()
			}
		})
	}
}

// TestSequenceIsSmall checks the documented memory use: almost nothing without gaps, in whichever
// direction a client counts, and little with gaps.
func TestSequenceIsSmall(t *testing.T) {
	const n = 1 << 17
	for _, x := range []struct {
		name   string
		number func(i uint64) uint64
		most   float64 // bytes for each number
	}{
		{"from 0", func(i uint64) uint64 { return i }, .2},
		{"from 1", func(i uint64) uint64 { return i + 1 }, .2},
		{"down", func(i uint64) uint64 { return 1<<40 - i }, .2},
		{"pairs swapped", func(i uint64) uint64 { return i ^ 1 }, .2},
		{"one of 100 missing", func(i uint64) uint64 { return i + i/99 }, 1},
		{"every other one", func(i uint64) uint64 { return 2 * i }, 2},
		{"one in 64, which costs what a key costs", func(i uint64) uint64 { return 64 * i }, 60},
	} {
		s := NewSequence[uint64]()
		for i := range uint64(n) {
			s.Add(1, x.number(i))
		}
		if got := float64(s.Bytes()) / n; got > x.most {
			t.Errorf("%s: %.2f B for each number, want at most %v", x.name, got, x.most)
		}
	}
}

// TestRecentAgainstLists compares the set with two maps, one for each generation.
func TestRecentAgainstLists(t *testing.T) {
	r := rand.New(rand.NewPCG(uint64(*seedFlag), 6))
	hash := HasherOf[int]()
	s := NewRecent[int]()
	young, old := make(map[int]bool), make(map[int]bool)
	for range 50_000 {
		k := r.IntN(3000)
		if got := s.Has(k, hash.Hash(k)); got != (young[k] || old[k]) {
			t.Fatalf("Has(%d) = %v; %s", k, got, rerun(t))
		} else if !got {
			s.Add(k, hash.Hash(k))
			young[k] = true
		}
		if r.IntN(500) == 0 {
			s.Turn()
			young, old = make(map[int]bool), young
		}
		if s.Young() != len(young) || s.Len() != len(young)+len(old) {
			t.Fatalf("%d and %d keys, want %d and %d; %s", s.Young(), s.Len(), len(young), len(young)+len(old), rerun(t))
		}
	}
}
