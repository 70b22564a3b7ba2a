package keyed

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

type request struct{ Client, Seq uint64 }

type tenantKey struct {
	Tenant string
	ID     uint64
}

const benchEvents = 1 << 20

// benchKeys draws benchEvents keys from n different ones, in random order.
func benchKeys[K comparable](n int, key func(r *rand.Rand, i int) K) []K {
	r := rand.New(rand.NewPCG(7, 9))
	base := make([]K, n)
	for i := range base {
		base[i] = key(r, i)
	}
	keys := make([]K, max(n, benchEvents))
	if copy(keys, base); n < len(keys) {
		for i := range keys {
			keys[i] = base[r.IntN(n)]
		}
	}
	r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

func wordKey(r *rand.Rand, _ int) uint64     { return r.Uint64() }
func requestKey(_ *rand.Rand, i int) request { return request{uint64(i % 1000), uint64(i / 1000)} }
func tenantKeyOf(_ *rand.Rand, i int) tenantKey {
	return tenantKey{fmt.Sprint("tenant-", i%1000), uint64(i / 1000)}
}
func stringKey(r *rand.Rand, _ int) string {
	const hex = "0123456789abcdef"
	b := make([]byte, 16+r.IntN(21))
	for j := range b {
		b[j] = hex[r.IntN(16)]
	}
	return string(b)
}

// BenchmarkFirst keeps the first event of each key. It compares the table, called in batches of
// 16, with a loop written by hand.
func BenchmarkFirst(b *testing.B) {
	for _, n := range []int{1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%dk", n/1000), func(b *testing.B) {
			b.Run("key=uint64", func(b *testing.B) { benchFirst(b, benchKeys(n, wordKey)) })
			b.Run("key=request", func(b *testing.B) { benchFirst(b, benchKeys(n, requestKey)) })
			b.Run("key=string", func(b *testing.B) { benchFirst(b, benchKeys(n, stringKey)) })
			b.Run("key=tenant", func(b *testing.B) { benchFirst(b, benchKeys(n, tenantKeyOf)) })
		})
	}
}

func benchFirst[K comparable](b *testing.B, keys []K) {
	perEvent := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(keys)), "ns/event")
	}
	b.Run("impl=table", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			firstTable(keys)
		}
		perEvent(b)
	})
	b.Run("impl=builtin", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			firstBuiltin(keys)
		}
		perEvent(b)
	})
}

func firstTable[K comparable](keys []K) int {
	const batch, probe = 256, 16
	hasher := HasherOf[K]()
	t := NewTable[K, struct{}]()
	var hashes [batch]uint64
	n := 0
	for len(keys) > 0 {
		ks := keys[:min(batch, len(keys))]
		keys = keys[len(ks):]
		hs := hashes[:len(ks)]
		hasher.HashAll(ks, hs)
		for len(ks) > 0 {
			m := min(probe, len(ks))
			t.Touch(hs[:m])
			for j, k := range ks[:m] {
				if _, added := t.Put(k, hs[j]); added {
					n++
				}
			}
			ks, hs = ks[m:], hs[m:]
		}
	}
	return n
}

func firstBuiltin[K comparable](keys []K) int {
	seen := make(map[K]struct{})
	n := 0
	for _, k := range keys {
		if _, ok := seen[k]; ok {
			continue
		}
		seen[k] = struct{}{}
		n++
	}
	return n
}

// BenchmarkChurn repeatedly adds a key and deletes the oldest of n.
func BenchmarkChurn(b *testing.B) {
	for _, n := range []uint64{1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%dk", n/1000), func(b *testing.B) {
			hasher := HasherOf[uint64]()
			table := NewTable[uint64, [8]uint64]()
			for k := range n {
				table.Put(k, hasher.Hash(k))
			}
			b.ReportAllocs()
			k := n
			for b.Loop() {
				table.Put(k, hasher.Hash(k))
				table.Delete(k-n, hasher.Hash(k-n))
				k++
			}
		})
	}
}
