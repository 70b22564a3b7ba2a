package timer

import "testing"

// TestMemoryIsGivenBack sets many timers, fires or cancels all or most of them, and checks that
// their memory is released.
func TestMemoryIsGivenBack(t *testing.T) {
	const n = 500_000
	for _, c := range []struct {
		name   string
		stays  func(h uint32) bool
		chunks int
	}{
		{"all go", func(uint32) bool { return false }, 3},
		{"the last ones stay", func(h uint32) bool { return h > n-1000 }, 8},
		{"few stay", func(h uint32) bool { return h%1000 == 0 }, 504},
	} {
		for _, cancels := range []bool{true, false} {
			w, f := NewWheel(), NewFIFO()
			for _, x := range []index{w, f} {
				for h := range uint32(n) {
					if x.Add(h, 10); c.stays(h) {
						x.Add(h, 20)
					}
				}
				for h := range uint32(n) {
					if cancels && !c.stays(h) {
						x.Cancel(h)
					}
				}
				x.Expire(15, func(uint32) {})
				left := 0
				for h := range uint32(n) {
					if c.stays(h) {
						left++
					}
				}
				if x.Len() != left {
					t.Fatalf("%s: %d timers are left, want %d", c.name, x.Len(), left)
				}
				for h := range uint32(n) {
					if c.stays(h) != x.Cancel(h) {
						t.Fatalf("%s: timer %d is pending or not", c.name, h)
					}
					if c.stays(h) {
						x.Add(h, 20)
					}
				}
			}
			for _, l := range []*lists{&w.lists, &f.lists} {
				there := 0
				for _, chunk := range l.chunks {
					if chunk != nil {
						there++
					}
				}
				if there != l.used || there > c.chunks || len(l.spare) > spareLeast+there/sparePart {
					t.Errorf("%s: %d chunks are there, %d counted, and %d spare; want %d", c.name, there, l.used, len(l.spare), c.chunks)
				}
			}
		}
	}
}
