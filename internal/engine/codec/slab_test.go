package codec_test

import (
	"bytes"
	"testing"

	"github.com/millrace/millrace/internal/engine/codec"
)

// TestSlab checks that a slab returns the encodings that were appended, whatever size was
// expected, and that appending to one changes no other.
func TestSlab(t *testing.T) {
	for _, expected := range []int{0, 1, 16, 300, 1 << 20} {
		var slab codec.Slab
		var all, want [][]byte
		for i := range 300 {
			b := bytes.Repeat([]byte{byte(i)}, i*i%700)
			all = append(all, slab.End(append(slab.Begin(expected, 300-i), b...)))
			want = append(want, b)
			_ = append(all[i], 0xff)
		}
		for i := range all {
			if !bytes.Equal(all[i], want[i]) {
				t.Fatalf("where %d bytes are expected, encoding %d is %x, want %x", expected, i, all[i], want[i])
			}
		}
	}
}

// TestSlabAllocates checks that records of the same size need one allocation in all.
func TestSlabAllocates(t *testing.T) {
	record := make([]byte, 100)
	if n := testing.AllocsPerRun(10, func() {
		var slab codec.Slab
		for i := range 100 {
			slab.End(append(slab.Begin(len(record), 100-i), record...))
		}
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

// TestSlabBounds checks that a slab allocates little more than the next encoding needs, however many are expected.
func TestSlabBounds(t *testing.T) {
	const most = 64 << 10
	for _, test := range []struct{ size, n, want int }{{100, 10, 1000}, {100, 1_000_000, most}, {most, 1000, most}, {1 << 20, 1, 1 << 20}, {1 << 20, 1_000_000, 1 << 20}} {
		var slab codec.Slab
		if got := cap(slab.Begin(test.size, test.n)); got != test.want {
			t.Errorf("for %d encodings of %d bytes it has %d, want %d", test.n, test.size, got, test.want)
		}
	}
}

// TestSlabRecords checks that the records of a slab are zero and are used again, and that those of another slab
// do not change while they are in use.
func TestSlabRecords(t *testing.T) {
	var kept codec.Slab
	mine := kept.Records(1000)
	for i := range mine {
		mine[i].Number = 1
	}
	fill := func(n int) {
		var slab codec.Slab
		rs := slab.Records(n)
		for i, r := range rs {
			if r.Number != 0 || r.Key != nil {
				t.Fatalf("record %d of %d is %+v", i, n, r)
			}
			rs[i] = codec.Record{Number: 2, Key: []byte("k")}
		}
		slab.Free()
	}
	for _, n := range []int{0, 1, 300, 1000, 300, 100_000, 1000} {
		fill(n)
	}
	for i := range mine {
		if mine[i].Number != 1 {
			t.Fatal("a record was written over before its slab was freed")
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		var slab codec.Slab
		slab.Records(1000)
		slab.Free()
	}); n > 1 { // what the garbage collector has taken meanwhile
		t.Errorf("%v allocations", n)
	}
}

// TestSlabFree checks that the memory of a slab is used again, and that what another slab has in it does not
// change while it is in use.
func TestSlabFree(t *testing.T) {
	fill := func(slab *codec.Slab, with byte) (all [][]byte) {
		for i := range 2000 {
			all = append(all, slab.End(append(slab.Begin(100, 2000-i), bytes.Repeat([]byte{with}, 100)...)))
		}
		return all
	}
	var kept, freed codec.Slab
	mine := fill(&kept, 1)
	for range 100 {
		fill(&freed, 2)
		freed.Free()
	}
	for _, b := range mine {
		if !bytes.Equal(b, bytes.Repeat([]byte{1}, 100)) {
			t.Fatal("an encoding was written over before its slab was freed")
		}
	}
	var slab codec.Slab
	if n := testing.AllocsPerRun(100, func() {
		for i := range 2000 {
			slab.End(append(slab.Begin(100, 2000-i), mine[0]...))
		}
		slab.Free()
	}); n > 20 { // the list of its memory, and what the garbage collector has taken meanwhile
		t.Errorf("%v allocations", n)
	}
}
