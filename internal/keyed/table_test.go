package keyed

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"
	"github.com/leanovate/gopter/prop"
)

// hashes are hash functions for numbers, most of them deliberately bad.
var hashes = []struct {
	name string
	hash func(uint64) uint64
}{
	{"random", HasherOf[uint64]().Hash},
	{"zero", func(uint64) uint64 { return 0 }},
	{"ones", func(uint64) uint64 { return math.MaxUint64 }},
	{"tag", func(k uint64) uint64 { return 0xdeadbeef<<32 | k }},
	{"segment", func(k uint64) uint64 { return hashWord(k, wordSeed) >> 22 }},
	{"place", func(k uint64) uint64 { return hashWord(k, wordSeed) &^ (0x3ff << 32) }},
	{"few", func(k uint64) uint64 { return k % 3 << 62 }},
	{"identity", func(k uint64) uint64 { return k }},
	{"shifted", func(k uint64) uint64 { return k << 32 }},
}

// TestTableAgainstModel makes short random sequences of calls and checks the results. A failing sequence
// is shrunk.
func TestTableAgainstModel(t *testing.T) {
	for _, h := range hashes {
		t.Run(h.name, func(t *testing.T) {
			parameters := gopter.DefaultTestParametersWithSeed(*seedFlag)
			parameters.MinSuccessfulTests = 50
			parameters.MaxSize = 400
			properties := gopter.NewProperties(parameters)
			properties.Property("table is map", prop.ForAll(func(calls []uint16) (string, error) {
				p := newPair[[1]int](h.hash)
				for _, c := range calls {
					if err := p.do(uint8(c), uint64(c>>8)%32); err != nil {
						return "", err
					}
				}
				return "", p.same()
			}, gen.SliceOf(gen.UInt16())))
			if !properties.Run(gopter.ConsoleReporter(false)) {
				t.Error(rerun(t))
			}
		})
	}
}

// TestTableGrows makes long sequences of calls, through all sizes of the index and back.
func TestTableGrows(t *testing.T) {
	for _, h := range hashes {
		t.Run(h.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(*seedFlag), 2))
			p := newPair[[1]int](h.hash)
			fail := func(err error) {
				if err != nil {
					t.Fatalf("%v\n%s", err, rerun(t))
				}
			}
			for range 2 {
				for _, deletes := range []int{5, 50, 95, 30} {
					for range 4000 {
						op := uint8(200)
						if r.IntN(100) < deletes {
							op = uint8(50 + r.IntN(70))
						}
						fail(p.do(op, r.Uint64N(5000)))
					}
					fail(p.same())
				}
				fail(p.do(0, 0))
				fail(p.same())
			}
		})
	}
}

// TestTableCollides checks that keys with the same hash take no more memory than others.
func TestTableCollides(t *testing.T) {
	const n = 6_000
	table := NewTable[uint64, int]()
	for k := range uint64(n) {
		table.Put(k, 42)
	}
	if err := table.check(); err != nil {
		t.Fatal(err)
	}
	if got := len(table.index.dir); got > dirPerSegment*2*len(table.index.segs) {
		t.Errorf("%d places for %d segments", got, len(table.index.segs))
	}
	if got := table.Bytes() / n; got > 100 {
		t.Errorf("%d bytes a key", got)
	}
	for k := range uint64(n) {
		if !table.Delete(k, 42) {
			t.Fatalf("Delete(%d) = false", k)
		}
	}
	if table.Len() != 0 || table.spill != nil {
		t.Errorf("Len() = %d, spill %v after deleting all", table.Len(), table.spill)
	}
}

// TestDirectoryIsBounded splits segments until the directory has the maximum number of places for each.
// Further keys of one hash must not double the directory. It fails for a limit that is one off, which
// the random hashes of other tests never reach.
func TestDirectoryIsBounded(t *testing.T) {
	table := NewTable[int, int]()
	next := 0
	for n := range 330 { // each two rounds make one of the first four segments split twice
		for _, bits := range []uint64{0b0100, 0b0101, 0b1000, 0b1001, 0b1100, 0b1101} {
			table.Put(next, bits<<60|uint64(n)<<32)
			next++
		}
	}
	if x := &table.index; len(x.segs) != 10 || len(x.dir) != 16 {
		t.Fatalf("%d segments in %d places, want 10 in 16", len(x.segs), len(x.dir))
	}
	for range 700 {
		table.Put(next, 1<<33)
		next++
	}
	if x := &table.index; len(x.segs) != 16 || len(x.dir) != 16*dirPerSegment {
		t.Errorf("%d segments in %d places, want 16 in %d", len(x.segs), len(x.dir), 16*dirPerSegment)
	}
	if len(table.spill) == 0 {
		t.Error("no key is outside of the index: the test sees too little")
	}
	if err := table.check(); err != nil {
		t.Error(err)
	}
}

func TestEntriesStay(t *testing.T) {
	table, hasher := NewTable[uint64, uint64](), HasherOf[uint64]()
	var values []*uint64
	for k := range uint64(10_000) {
		i, v, added := table.PutIndex(k, hasher.Hash(k))
		if !added || i != uint32(k) {
			t.Fatalf("PutIndex(%d) = %d, %v", k, i, added)
		}
		*v = k
		values = append(values, v)
	}
	for k, v := range values {
		if i, got := table.GetIndex(uint64(k), hasher.Hash(uint64(k))); got != v || i != uint32(k) || *v != uint64(k) {
			t.Fatalf("GetIndex(%d) = %d, %p, want %p", k, i, got, v)
		}
	}
}

// TestDeletedForgets checks that a deleted entry keeps nothing alive.
func TestDeletedForgets(t *testing.T) {
	table, hasher := NewTable[string, *int](), HasherOf[string]()
	for _, k := range []string{"a", "b", "c"} {
		v, _ := table.Put(k, hasher.Hash(k))
		*v = new(int)
	}
	table.Delete("b", hasher.Hash("b"))
	if e := table.entry(1); e.k != "" || e.v != nil {
		t.Errorf("deleted entry is %v, want zero", *e)
	}
	table.Clear()
	for i := range uint32(3) {
		if e := table.entry(i); e.k != "" || e.v != nil {
			t.Errorf("entry %d is %v after Clear, want zero", i, *e)
		}
	}
}

func TestDeleteWhileIterating(t *testing.T) {
	table, hasher := NewTable[int, int](), HasherOf[int]()
	for k := range 5000 {
		table.Put(k, hasher.Hash(k))
	}
	n := 0
	for k := range All(table) {
		if k != n {
			t.Fatalf("key %d, want %d", k, n)
		}
		table.Delete(k, hasher.Hash(k))
		n++
	}
	if n != 5000 || table.Len() != 0 {
		t.Errorf("met %d keys, %d left", n, table.Len())
	}
}

func TestClearKeepsLittle(t *testing.T) {
	table, hasher := NewTable[uint64, uint64](), HasherOf[uint64]()
	fill := func(n uint64) {
		for k := range n {
			table.Put(k, hasher.Hash(k))
		}
	}
	fill(100_000)
	table.Clear()
	if got := table.Bytes(); got > 1024 {
		t.Errorf("%d bytes after 100,000 keys, want few", got)
	}
	fill(10_000)
	held := table.Bytes()
	table.Clear()
	if got := table.Bytes(); got != held {
		t.Errorf("%d bytes after 10,000 keys, want %d as before", got, held)
	}
	fill(10)
	table.Clear()
	if got := table.Bytes(); got > 1024 {
		t.Errorf("%d bytes after 10 keys, want few", got)
	}
}

// TestSteadyStateAllocates shows that calls allocate only when the table grows.
func TestSteadyStateAllocates(t *testing.T) {
	table, hasher := NewTable[request, int](), HasherOf[request]()
	keys := make([]request, 3000)
	hs := make([]uint64, len(keys))
	for i := range keys {
		keys[i] = request{uint64(i % 7), uint64(i)}
	}
	run := func() {
		hasher.HashAll(keys, hs)
		table.Touch(hs)
		for i, k := range keys {
			v, _ := table.Put(k, hs[i])
			*v += *table.Get(k, hs[i])
		}
		for range All(table) {
		}
		for i, k := range keys[:2000] {
			table.Delete(k, hs[i])
		}
		for i, k := range keys[:1000] {
			table.Put(k, hs[i])
		}
		table.Clear()
	}
	run()
	if n := testing.AllocsPerRun(20, run); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func FuzzTable(f *testing.F) {
	f.Add([]byte{200, 1, 200, 2, 50, 1, 200, 3, 100, 2, 0, 0}, uint8(1))
	f.Fuzz(func(t *testing.T, calls []byte, kind uint8) {
		p := newPair[[1]int](hashes[int(kind)%len(hashes)].hash)
		for ; len(calls) >= 2; calls = calls[2:] {
			if err := p.do(calls[0], uint64(calls[1])); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.same(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPutNew compares PutNew with a Put for each key while a table grows and keys are deleted, with keys that
// repeat within a batch and hashes that collide.
func TestPutNew(t *testing.T) {
	for _, h := range hashes {
		t.Run(h.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(*seedFlag), 7))
			one, all := NewTable[uint64, int](), NewTable[uint64, int]()
			for range 120 {
				keys, hs := make([]uint64, r.IntN(200)), make([]uint64, 200)
				for i := range keys {
					keys[i] = r.Uint64N(8_000) * r.Uint64N(2)
					if hs[i] = h.hash(keys[i]); keys[i] < 100 {
						hs[i] = 1 << 40
					}
				}
				want := []int32{-1}
				for i, k := range keys {
					if _, added := one.Put(k, hs[i]); added {
						want = append(want, int32(i))
					}
				}
				if got := all.PutNew(keys, hs, []int32{-1}); !slices.Equal(got, want) || all.Len() != one.Len() {
					t.Fatalf("got %v, %d keys, want %v, %d; %s", got, all.Len(), want, one.Len(), rerun(t))
				}
				for i, k := range keys[:len(keys)/3] {
					one.Delete(k, hs[i])
					all.Delete(k, hs[i])
				}
			}
			for k := range All(one) {
				h := h.hash(k)
				if k < 100 {
					h = 1 << 40
				}
				if i, v := all.GetIndex(k, h); v == nil || all.entry(i).k != k {
					t.Fatalf("key %d is missing; %s", k, rerun(t))
				}
			}
		})
	}
}

// TestPutOne puts keys of several layouts with unknown hashes while a table grows.
func TestPutOne(t *testing.T) {
	putOne(t, func(i int) int { return i })
	putOne(t, func(i int) [2]uint64 { return [2]uint64{uint64(i % 7), uint64(i)} })
	putOne(t, func(i int) [3]uint32 { return [3]uint32{uint32(i), 1, 2} })
	putOne(t, func(i int) string { return fmt.Sprint("key ", i) })
	putOne(t, func(i int) float64 { return float64(i) / 3 })
	putOne(t, func(i int) uint8 { return uint8(i) })
}

func putOne[K comparable](t *testing.T, key func(int) K) {
	t.Helper()
	hash, table, known := HasherOf[K](), NewTable[K, int](), make(map[K]int)
	for i := range 30_000 {
		k := key(i * 7 % 9_973)
		v, h, added := table.PutOne(hash, k, 0)
		old, there := known[k]
		if h != hash.Hash(k) || added == there || *v != old || table.Get(k, h) != v {
			t.Fatalf("PutOne(%v) = %d, %x, %t, want %d, %x, %t", k, *v, h, added, old, hash.Hash(k), !there)
		}
		*v, known[k] = i, i
	}
}
