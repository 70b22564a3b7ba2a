package edge

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestBytesAreBounded checks that reservations never exceed a share or the whole, and that all bytes
// are returned.
func TestBytesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := NewBytes(100)
		shares := []*Bytes{whole.Share(40), whole.Share(40), whole.Share(1000)}
		var used atomic.Int64
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(1, uint64(i)))
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(50))*time.Second)
				defer cancel()
				l, err := shares[i%3].Reserve(ctx, r.Int64N(60))
				if err != nil {
					return
				}
				for range r.IntN(3) {
					l.Grow(ctx, r.Int64N(30)) // may fail
				}
				if now := used.Add(l.held); now > 100 || l.held > shares[i%3].size {
					t.Errorf("%d bytes are used, %d of them by one", now, l.held)
				}
				<-time.After(time.Duration(r.IntN(5)) * time.Second)
				used.Add(-l.held)
				l.Release()
				l.Release() // has no effect
			})
		}
		wg.Wait()
		for i, b := range append(shares, whole) {
			if b.free != b.size || b.waiting.Len() != 0 {
				t.Errorf("%d: %d of %d are free, %d wait", i, b.free, b.size, b.waiting.Len())
			}
		}
	})
}

// TestBytesOfOthers checks that an exhausted share does not block another one.
func TestBytesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := NewBytes(100)
		greedy, other := whole.Share(50), whole.Share(50)
		all, err := greedy.Reserve(t.Context(), 1000)
		if err != nil || all.held != 50 {
			t.Fatalf("%d, %v", all.held, err)
		}
		defer all.Release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := greedy.Reserve(ctx, 1); err == nil {
			t.Error("there was more than the share")
		}
		l, err := other.Reserve(t.Context(), 50)
		if err != nil {
			t.Fatal(err)
		}
		l.Release()
	})
}

// TestBytesInOrder checks that small claims do not overtake a large one for ever, and that those
// behind it proceed when it is given up.
func TestBytesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBytes(10)
		first, _ := b.Reserve(t.Context(), 6)
		var order []int
		var mu sync.Mutex
		note := func(n int64) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, int(n))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i, n := range []int64{8, 9, 3} {
			wg.Go(func() {
				within := t.Context()
				if i == 1 {
					within = ctx
				}
				if l, err := b.Reserve(within, n); err == nil {
					note(n)
					<-time.After(time.Second)
					l.Release()
				}
			})
			synctest.Wait()
		}
		if len(order) != 0 {
			t.Errorf("%v passed a larger one", order)
		}
		first.Release()
		synctest.Wait()
		cancel()
		wg.Wait()
		if len(order) != 2 || order[0] != 8 || order[1] != 3 {
			t.Errorf("%v had their turn", order)
		}
	})
}
