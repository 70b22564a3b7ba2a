package cow

import (
	"maps"
	"math/rand/v2"
	"testing"
)

// BenchmarkCut makes 1000 updates to 100,000 keys and takes a view. It compares this with cloning
// a builtin map.
func BenchmarkCut(b *testing.B) {
	const size, updates = 100_000, 1000
	b.Run("impl=cow", func(b *testing.B) {
		m, r := NewMap[uint64, int](), rand.New(rand.NewPCG(1, 2))
		for i := range uint64(size) {
			m.Set(i, 0)
		}
		b.ReportAllocs()
		for b.Loop() {
			for j := range updates {
				m.Set(r.Uint64N(size), j)
			}
			m.View()
		}
	})
	b.Run("impl=clone", func(b *testing.B) {
		m, r := map[uint64]int{}, rand.New(rand.NewPCG(1, 2))
		for i := range uint64(size) {
			m[i] = 0
		}
		b.ReportAllocs()
		for b.Loop() {
			for j := range updates {
				m[r.Uint64N(size)] = j
			}
			if len(maps.Clone(m)) != size {
				b.Fatal("keys were lost")
			}
		}
	})
}
