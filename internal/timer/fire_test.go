package timer

import "testing"

// TestLenWhileFiring checks that a timer is no longer pending while it fires, in each index.
func TestLenWhileFiring(t *testing.T) {
	for name, x := range map[string]interface {
		Add(h uint32, at int64)
		Expire(now int64, fire func(h uint32))
		Len() int
	}{"FIFO": NewFIFO(), "Wheel": NewWheel()} {
		const n = 5
		for h := range uint32(n) {
			x.Add(h, int64(h/2)) // two timers have the same deadline: the second is pending while the first fires
		}
		fired := 0
		x.Expire(n, func(uint32) {
			if fired++; x.Len() != n-fired {
				t.Errorf("%s: while timer %d of %d fires, %d are pending", name, fired, n, x.Len())
			}
		})
		if fired != n {
			t.Errorf("%s: %d timers have fired, want %d", name, fired, n)
		}
	}
}

// TestSortGivesBack checks that the memory for sorting many timers is released.
func TestSortGivesBack(t *testing.T) {
	for _, n := range []uint32{100, orderKeep + 1} {
		f := NewFIFO()
		for h := range n { // the last timer is due first, so that they must be sorted
			f.Add(h, int64(n-h))
		}
		if at, ok := f.Next(); !ok || at != 1 {
			t.Errorf("of %d the next is due at %d, %v", n, at, ok)
		}
		if kept := f.queue.order != nil; kept == (n > orderKeep) {
			t.Errorf("after sorting %d, the memory is kept: %v", n, kept)
		}
	}
}
