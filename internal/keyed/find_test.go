package keyed

import (
	"math/rand/v2"
	"testing"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"
	"github.com/leanovate/gopter/prop"
)

// TestFindIsGet compares Find with Get, for keys that exist, that were deleted and that never
// existed, with deliberately bad hashes. Find takes a shortcut through the first slots. The test
// fails if it skips a slot, a gap or a spilled key.
func TestFindIsGet(t *testing.T) {
	for _, h := range hashes {
		t.Run(h.name, func(t *testing.T) {
			parameters := gopter.DefaultTestParametersWithSeed(*seedFlag)
			parameters.MinSuccessfulTests = 20
			properties := gopter.NewProperties(parameters)
			properties.Property("Find is Get", prop.ForAll(func(size int, seed uint64) bool {
				r := rand.New(rand.NewPCG(seed, 1))
				table := NewTable[uint64, int]()
				for i := range size {
					k := r.Uint64N(uint64(size))
					if v, _ := table.Put(k, h.hash(k)); i%3 > 0 {
						*v = i
					} else {
						table.Delete(k, h.hash(k))
					}
				}
				ks := make([]uint64, r.IntN(200))
				hs, at := make([]uint64, len(ks)), make([]*int, len(ks))
				want := 0
				for i := range ks {
					ks[i] = r.Uint64N(2 * uint64(size))
					hs[i], at[i] = h.hash(ks[i]), new(int)
					if table.Get(ks[i], hs[i]) != nil {
						want++
					}
				}
				if got := Find(table, ks, hs, at); got != want {
					t.Logf("Find() = %d, want %d", got, want)
					return false
				}
				for n := range min(len(ks), findGroup+2) { // a last group of any length
					at[n] = new(int)
					if Find(table, ks[:n+1], hs, at); at[n] != table.Get(ks[n], hs[n]) {
						t.Logf("Find of %d keys misses the last", n+1)
						return false
					}
				}
				for i, k := range ks {
					if want := table.Get(k, hs[i]); at[i] != want {
						t.Logf("Find: at[%d] = %p, want %p, of key %d", i, at[i], want, k)
						return false
					}
				}
				return true
			}, gen.IntRange(1, 3000), gen.UInt64()))
			if !properties.Run(gopter.ConsoleReporter(false)) {
				t.Error(rerun(t))
			}
		})
	}
}
