package timer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestEach compares the timers that Each returns with those that fire. A timer that Each leaves
// out, repeats or returns in another order would be wrong after it was saved.
func TestEach(t *testing.T) {
	type saved interface {
		index
		At(h uint32) int64
		Each(do func(h uint32, at int64))
	}
	deadlines := []int64{5, 1, 1 << 40, 1, math.MaxInt64, -3, 5, 0, 64, 63, 1<<40 + 1, -3, 4096}
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		deadlines = append(deadlines, r.Int64N(1<<r.IntN(62)+1))
	}
	for _, i := range indexes {
		x, ok := i.make().(saved)
		if !ok {
			t.Fatalf("%s has no At and Each", i.name)
		}
		x.Each(func(h uint32, _ int64) { t.Errorf("%s: timer %d is pending", i.name, h) })
		for h, at := range deadlines {
			x.Add(uint32(h), at)
		}
		all(x, 1) // the clock advances, so some timers are late when they are added
		for h, at := range deadlines[:10] {
			x.Add(uint32(h+len(deadlines)), at)
		}
		x.Cancel(9)
		var pending []uint32
		x.Each(func(h uint32, at int64) {
			pending = append(pending, h)
			if want := append(deadlines, deadlines[:10]...)[h]; at != want || x.At(h) != want {
				t.Errorf("%s: timer %d is pending for %d and At is %d, want %d", i.name, h, at, x.At(h), want)
			}
		})
		if fired := all(x, math.MaxInt64); !slices.Equal(pending, fired) || len(fired) == 0 || slices.Contains(fired, 9) {
			t.Errorf("%s: pending are %v, and then %v fire", i.name, pending, fired)
		}
	}
}
