package keyed

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/millrace/millrace/internal/long"
)

// TestTableShrinks makes random calls on tables that are large enough to give memory back: they
// grow, shrink by deletions in several orders to few or no entries, are cleared, and grow again into
// the memory given back.
func TestTableShrinks(t *testing.T) {
	for _, h := range hashes[:long.Of(2, len(hashes))] {
		t.Run(h.name, func(t *testing.T) {
			p := newPair[[64]int](h.hash) // 2,000 keys are 1 MiB
			gone, spare := shrink(t, p, 6, 6000)
			if gone == 0 || spare == 0 {
				t.Errorf("%d chunks were let go and %d kept: the test sees too little", gone, spare)
			}
		})
	}
	for _, h := range []int{0, 4, 6}[:long.Of(1, 3)] { // more than 64 segments; few keys are spilled
		t.Run("small values/"+hashes[h].name, func(t *testing.T) {
			p := newPair[[1]int](hashes[h].hash)
			if shrink(t, p, 2, 60_000); h == 0 && len(p.table.index.idle) == 0 {
				t.Error("no segment was merged: the test sees too little")
			}
		})
	}
}

// shrink returns the largest number of chunks that were given back and that were spare.
func shrink[V value](t *testing.T, p *pair[uint64, V], rounds, keys int) (gone, spare int) {
	r := rand.New(rand.NewPCG(uint64(*seedFlag), 3))
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v\n%s", err, rerun(t))
		}
	}
	look := func() {
		gone = max(gone, len(p.table.chunks)-p.table.used)
		spare = max(spare, len(p.table.spare))
	}
	const get, put = 100, 201
	for round := range uint64(rounds) {
		base := round * uint64(keys) / 2
		for _, i := range r.Perm(keys) {
			fail(p.do(put, base+uint64(i)))
		}
		fail(p.same())
		order := p.model.order()
		switch round % 3 {
		case 0:
			r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		case 1: // while they are iterated
			for k := range All(p.table) {
				if r.IntN(20) == 0 {
					fail(p.do(get, k))
				} else {
					fail(p.do(50, k))
				}
				look()
			}
		}
		leave := []int{0, 1, 300}[r.IntN(3)]
		for n, k := range order[:max(0, len(order)-leave)] {
			fail(p.do(50, k))
			switch r.IntN(10) {
			case 0:
				fail(p.do(put, base+r.Uint64N(uint64(keys))))
			case 1:
				fail(p.do(get, k))
			}
			if look(); n%(keys/3) == 0 {
				fail(p.same())
			}
		}
		fail(p.same())
		if round == 3 {
			fail(p.do(0, 0))
			fail(p.same())
		}
	}
	return gone, spare
}

// heap returns the memory in use after a collection, in bytes.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestTableGivesBack checks how much memory two million keys leave behind.
func TestTableGivesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 200 MiB")
	}
	const n, left, mib = 2_000_000, 2000, 1 << 20
	hasher := HasherOf[uint64]()
	before := heap()
	table := NewTable[uint64, [8]uint64]()
	saved := table.Numbers().Save(false, func(uint32) {})
	for k := range uint64(n) {
		table.Put(k, hasher.Hash(k))
	}
	full := heap() - before
	for k := range uint64(n) {
		if k%(n/left) != 0 {
			table.Delete(k, hasher.Hash(k))
		}
	}
	some := heap() - before
	if err := table.check(); err != nil || table.Len() != left {
		t.Fatalf("%d entries, want %d; %v", table.Len(), left, err)
	}
	for k := range uint64(n) {
		table.Delete(k, hasher.Hash(k))
	}
	none := heap() - before
	t.Logf("%d MiB full, %d MiB with %d left, %d MiB with none", full/mib, some/mib, left, none/mib)
	if some > 60*mib || none > mib {
		t.Errorf("%d MiB with %d left, want 60 or less; %d MiB with none, want 1 or less", some/mib, left, none/mib)
	}
	if saved.Bytes() != 0 {
		t.Errorf("%d bytes of marks for no entries", saved.Bytes())
	}
	runtime.KeepAlive(table)
}

// TestChurnDoesNotAllocate adds keys and deletes the oldest, one or many at a time.
func TestChurnDoesNotAllocate(t *testing.T) {
	const n = 100_000
	turns := uint64(long.Of(1_000_000, 10_000_000))
	for _, batch := range []uint64{1, 5000} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			hasher := HasherOf[uint64]()
			table := NewTable[uint64, [8]uint64]()
			for k := range uint64(n) {
				table.Put(k, hasher.Hash(k))
			}
			next := uint64(n)
			allocs := testing.AllocsPerRun(1, func() {
				for range turns / batch {
					for k := next - n; k < next-n+batch; k++ {
						table.Delete(k, hasher.Hash(k))
					}
					for range batch {
						table.Put(next, hasher.Hash(next))
						next++
					}
				}
			})
			if allocs != 0 {
				t.Errorf("%v allocations in %d calls, want none", allocs, turns)
			}
		})
	}
}

// TestSpareChunks empties the chunks of a large table one after another. One spare chunk for each
// eight in use is kept for new keys, and the others are given back. It fails if a table keeps much
// more, or allocates again for most new keys.
func TestSpareChunks(t *testing.T) {
	const chunks = 40 // of 132 KiB
	hasher := HasherOf[int]()
	table := NewTable[int, [64]int]()
	for k := range chunks * chunkLen {
		table.Put(k, hasher.Hash(k))
	}
	kept := 0
	for c := range chunks {
		if uint64(table.used+len(table.spare))*chunkBytes[int, [64]int]() <= clearKeep {
			break // too little to give back
		}
		for k := c * chunkLen; k < (c+1)*chunkLen; k++ {
			table.Delete(k, hasher.Hash(k))
		}
		most := (chunks-c)/8 + 1
		if kept = min(kept+1, most); table.used != chunks-c-1 || len(table.spare) != kept {
			t.Fatalf("after %d chunks %d are in use and %d are kept, want %d and %d", c+1, table.used, len(table.spare), chunks-c-1, kept)
		}
	}
	if kept == 0 || kept > 2 {
		t.Errorf("%d chunks are kept in the end: the test sees too little", kept)
	}
}

// TestRemovalIsBounded checks that the index shrinks gradually: one Delete merges at most
// segmentDepth segments.
func TestRemovalIsBounded(t *testing.T) {
	hasher := HasherOf[uint64]()
	table := NewTable[uint64, struct{}]()
	const n = 300_000
	for k := range uint64(n) {
		table.Put(k, hasher.Hash(k))
	}
	full, most := table.index.len(), 0
	for k := range uint64(n - 100) {
		before := table.index.len()
		table.Delete(k, hasher.Hash(k))
		most = max(most, before-table.index.len())
	}
	if most > segmentDepth {
		t.Errorf("a call of Delete merged %d segments, want at most %d", most, segmentDepth)
	}
	if got := table.index.len(); got > mergeFrom || full < 4*mergeFrom {
		t.Errorf("%d segments of %d are left, want %d", got, full, mergeFrom)
	}
}

// TestLargeCuts empties a large table during a cut, twice, and restores a table that is nearly
// empty. The restored table must use as little memory as the saved one.
func TestLargeCuts(t *testing.T) {
	h := HasherOf[int]()
	table := NewTable[int, int]()
	const n = 100_000
	fill := func() {
		for k := range n {
			table.Put(k, h.Hash(k))
		}
	}
	empty := func(but int) {
		for k := range n {
			if but == 0 || k%but != 0 {
				table.Delete(k, h.Hash(k))
			}
		}
	}
	w := newWriter(table, false)
	cut := func(meanwhile func()) {
		t.Helper()
		w.cut()
		w.part()
		meanwhile()
		for !w.part() {
		}
		got, ok := w.restored()
		if !ok {
			t.Fatal("what was written is no table")
		}
		if err := sameTable(got, w.want); err != nil {
			t.Fatal(err)
		}
		if err := got.check(); err != nil {
			t.Fatal(err)
		}
		if a, b := held(got), held(w.want); a > 2*b {
			t.Errorf("a restored table has %d bytes, want about %d", a, b)
		}
		if err := table.check(); err != nil {
			t.Fatal(err)
		}
	}
	fill()
	cut(func() {
		empty(0)
		fill()
		empty(0)
	})
	cut(func() {})
	if got := table.Bytes(); got > 100_000 {
		t.Errorf("%d bytes after a cut of nothing, want few", got)
	}
	fill()
	empty(1000)
	cut(fill)
	empty(3000)
	cut(func() { empty(0) })
	cut(table.Clear)
}

// TestFilledTableEmpties empties a table that was restored without a chunk whose numbers are all
// free. Numbers that are given out again need such a chunk.
func TestFilledTableEmpties(t *testing.T) {
	const keys = 3 * chunkLen
	h := HasherOf[int]()
	from := NewTable[int, int]()
	for k := range keys {
		from.Put(k, h.Hash(k))
	}
	for k := range keys - 1 {
		from.Delete(k, h.Hash(k))
	}
	w := newWriter(from, false)
	w.cut()
	for !w.part() {
	}
	to, ok := w.restored()
	if !ok || to.used != 1 {
		t.Fatalf("the table has %d chunks, %v", to.used, ok)
	}
	to.Delete(keys-1, h.Hash(keys-1))
	for k := range keys {
		*first(to.Put(k, h.Hash(k))) = -k
	}
	for k := range keys {
		if v := to.Get(k, h.Hash(k)); v == nil || *v != -k {
			t.Fatalf("%d has %v", k, v)
		}
	}
}
