package timer

import (
	"math"
	"slices"
	"testing"
)

func all(x index, now int64) (hs []uint32) {
	x.Expire(now, func(h uint32) { hs = append(hs, h) })
	return hs
}

func TestOrder(t *testing.T) {
	for _, c := range []struct {
		name string
		at   []int64 // by handle
		now  int64
		want []uint32
	}{
		{"none", nil, math.MaxInt64, nil},
		{"by deadline", []int64{3, 1, 2}, 3, []uint32{1, 2, 0}},
		{"by insertion", []int64{7, 7, 7}, 7, []uint32{0, 1, 2}},
		{"not before", []int64{5, 6, 4}, 5, []uint32{2, 0}},
		{"a unit apart", []int64{1<<40 + 1, 1 << 40, 1<<40 - 1}, 1 << 40, []uint32{2, 1}},
		{"all of time", []int64{math.MaxInt64, 0, math.MinInt64, -1}, math.MaxInt64, []uint32{2, 3, 1, 0}},
		{"the past", []int64{-9, -10, 20}, 0, []uint32{1, 0}},
	} {
		for _, i := range indexes {
			x := i.make()
			for h, at := range c.at {
				x.Add(uint32(h), at)
			}
			if got := all(x, c.now); !slices.Equal(got, c.want) {
				t.Errorf("%s: %s: fired %v, want %v", i.name, c.name, got, c.want)
			}
		}
	}
}

func TestOverdueAfterExpire(t *testing.T) {
	for _, i := range indexes {
		x := i.make()
		all(x, 1000)
		for h, at := range []int64{1000, 3, 999, 3} {
			x.Add(uint32(h), at)
		}
		if at, ok := x.Next(); at != 3 || !ok {
			t.Errorf("%s: Next() = %d, %v, want 3", i.name, at, ok)
		}
		if got, want := all(x, 1000), []uint32{1, 3, 2, 0}; !slices.Equal(got, want) {
			t.Errorf("%s: fired %v, want %v", i.name, got, want)
		}
	}
}

// TestManyOverdue sets overdue timers in the worst order, in which each new timer is due
// before all others.
func TestManyOverdue(t *testing.T) {
	const n = 100_000
	for _, i := range indexes {
		x := i.make()
		all(x, n)
		for h := range uint32(n) {
			x.Add(h, int64(n-h))
		}
		want := uint32(n)
		x.Expire(n, func(h uint32) {
			want--
			if h != want {
				t.Fatalf("%s: fired %d, want %d", i.name, h, want)
			}
		})
	}
}

// TestNextLeadsThere checks that sleeping until Next reaches the deadline, in at most
// levels turns.
func TestNextLeadsThere(t *testing.T) {
	for _, i := range indexes {
		x := i.make()
		all(x, 0)
		const deadline = 3 * hour
		for h := range uint32(1000) {
			x.Add(h, deadline)
		}
		turns, fired := 0, 0
		for x.Len() > 0 {
			at, ok := x.Next()
			if !ok || at > deadline {
				t.Fatalf("%s: Next() = %d, %v", i.name, at, ok)
			}
			fired += len(all(x, at))
			if turns++; turns > levels {
				t.Fatalf("%s: %d turns", i.name, turns)
			}
		}
		if fired != 1000 {
			t.Errorf("%s: fired %d of 1000", i.name, fired)
		}
	}
}

func TestCancelOfUnknown(t *testing.T) {
	for _, i := range indexes {
		x := i.make()
		for _, h := range []uint32{0, 5, 1 << 20, math.MaxUint32} {
			if x.Cancel(h) {
				t.Errorf("%s: Cancel(%d) = true", i.name, h)
			}
		}
		x.Add(3, 1)
		if x.Cancel(2) || !x.Cancel(3) || x.Cancel(3) || x.Len() != 0 {
			t.Errorf("%s: Cancel is wrong about 3", i.name)
		}
	}
}

func TestSteadyStateAllocates(t *testing.T) {
	for _, i := range indexes {
		x := i.make()
		now := int64(0)
		run := func() {
			for h := range uint32(5000) {
				x.Add(h, now+1000+int64(h))
			}
			for h := range uint32(4000) {
				x.Cancel(h)
			}
			now += hour
			x.Expire(now, func(uint32) {})
		}
		run()
		if n := testing.AllocsPerRun(10, run); n != 0 {
			t.Errorf("%s: %v allocations, want none", i.name, n)
		}
	}
}
