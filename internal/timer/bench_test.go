package timer

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkSetCancel has a million timers pending. Each step sets one timer and
// cancels one of the last 1000, like a request that ends before its timeout.
func BenchmarkSetCancel(b *testing.B) {
	const pending = 1_000_000
	for _, delay := range []string{"constant", "varying"} {
		for _, i := range append(indexes, struct {
			name string
			make func() index
		}{"btree", func() index { return newModel() }}) {
			if delay == "varying" && i.name == "fifo" {
				continue
			}
			b.Run(fmt.Sprintf("pending=1M/delay=%s/impl=%s", delay, i.name), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 2))
				x, now := i.make(), int64(0)
				add := func(h uint32) {
					at := now + 30e9
					if delay == "varying" {
						at = now + 15e9 + r.Int64N(30e9)
					}
					x.Add(h, at)
				}
				x.Expire(now, func(uint32) {})
				for h := range uint32(pending) {
					now += 10
					add(h)
				}
				recent := make([]uint32, 1000)
				for j := range recent {
					recent[j] = uint32(pending - 1 - j)
				}
				h := uint32(pending)
				b.ReportAllocs()
				for b.Loop() {
					now += 10
					add(h)
					j := r.IntN(len(recent))
					x.Cancel(recent[j])
					recent[j], h = h, recent[j]
				}
			})
		}
	}
}

// BenchmarkExpire fires timers and sets each of them again at once.
func BenchmarkExpire(b *testing.B) {
	for _, i := range indexes {
		b.Run("pending=100k/impl="+i.name, func(b *testing.B) {
			const pending = 100_000
			x, now := i.make(), int64(0)
			for h := range uint32(pending) {
				x.Add(h, int64(h)*100)
			}
			b.ReportAllocs()
			for b.Loop() {
				now += 100
				x.Expire(now, func(h uint32) { x.Add(h, now+100*pending) })
			}
		})
	}
}
