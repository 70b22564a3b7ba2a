package cow

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"testing"
)

type (
	label string
	level int8
	ratio float32
	id    uintptr
)

func TestOrderedKinds(t *testing.T) {
	testOrder(t, []int{3, -1, 2, math.MinInt})
	testOrder(t, []int8{3, -1, 2})
	testOrder(t, []int16{3, -1, 2})
	testOrder(t, []int32{3, -1, 2})
	testOrder(t, []int64{3, -1, 2, 1 << 40})
	testOrder(t, []uint{3, 1, 2})
	testOrder(t, []uint8{3, 1, 255})
	testOrder(t, []uint16{3, 1, 2})
	testOrder(t, []uint32{3, 1, 2})
	testOrder(t, []uint64{3, 1, math.MaxUint64})
	testOrder(t, []float32{3, -1, 2})
	testOrder(t, []float64{3, -1, math.Inf(-1), 2})
	testOrder(t, []string{"b", "a", "", "ab"})
	testOrder(t, []label{"b", "a"})
	testOrder(t, []level{3, -1})
	testOrder(t, []ratio{3, -1})
	testOrder(t, []id{3, 1})
}

func keys[K comparable, V any](v View[K, V]) (ks []K) {
	for k := range v.All() {
		ks = append(ks, k)
	}
	return ks
}

func testOrder[K cmp.Ordered](t *testing.T, ks []K) {
	t.Helper()
	m := NewMap[K, int]()
	for i, k := range ks {
		m.Set(k, i)
	}
	if got, want := keys(m.View()), slices.Sorted(slices.Values(ks)); !slices.Equal(got, want) {
		t.Errorf("%T: keys %v, want %v", ks[0], got, want)
	}
}

func TestUnorderedKindsKeepInsertion(t *testing.T) {
	m := NewMap[any, int]()
	for i, k := range []any{"b", 1, "a", true, 1.5, 1} {
		m.Set(k, i)
	}
	m.Delete("b")
	m.Set("b", 9)
	if got, want := keys(m.View()), []any{1, "a", true, 1.5, "b"}; !slices.Equal(got, want) {
		t.Errorf("keys %v, want %v", got, want)
	}
	if v, ok := m.View().Get(1); v != 5 || !ok {
		t.Errorf("Get(1) = %d, %v, want 5", v, ok)
	}
}

func TestNaN(t *testing.T) {
	m := NewMap[float64, int]()
	for i, k := range []float64{1, math.NaN(), math.Inf(-1), math.NaN()} {
		m.Set(k, i)
	}
	if v, ok := m.View().Get(math.NaN()); v != 3 || !ok || m.Len() != 3 {
		t.Errorf("Get(NaN) = %d, %v of %d keys, want 3 of 3", v, ok, m.Len())
	}
}

func TestZeroView(t *testing.T) {
	var v View[string, int]
	if _, ok := v.Get("a"); ok || v.Len() != 0 || len(keys(v)) != 0 {
		t.Error("the zero view is not empty")
	}
}

func TestViewOfUnchangedMapIsFree(t *testing.T) {
	m := NewMap[string, int]()
	m.Set("a", 1)
	m.View()
	if n := testing.AllocsPerRun(10, func() { m.View() }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// TestWriterGoesOn has readers iterate views while the writer writes, for the race detector. It
// checks that each view shows one moment: all its values differ by less than a round.
func TestWriterGoesOn(t *testing.T) {
	t.Run("int", func(t *testing.T) { writerGoesOn(t, func(i int) int { return i }) })
	t.Run("point", func(t *testing.T) { writerGoesOn(t, func(i int) point { return point{1, float64(i)} }) })
}

func writerGoesOn[K comparable](t *testing.T, key func(int) K) {
	const size, rounds, readers = 500, 40, 4
	m := NewMap[K, int]()
	views := make(chan View[K, int])
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for v := range views {
				n, low, high := 0, math.MaxInt, 0
				for k, x := range v.All() {
					if got, ok := v.Get(k); got != x || !ok {
						t.Errorf("Get(%v) = %d, %v, want %d", k, got, ok, x)
					}
					n++
					low, high = min(low, x), max(high, x)
				}
				if n != v.Len() || n > 0 && high-low >= 2*size {
					t.Errorf("%d entries of %d, values %d to %d", n, v.Len(), low, high)
				}
			}
		})
	}
	for i := range size * rounds {
		if i%7 == 3 {
			m.Delete(key((i + 1) % size))
		}
		m.Set(key(i%size), i)
		if i%100 == 0 {
			views <- m.View()
		}
	}
	close(views)
	wg.Wait()
}
