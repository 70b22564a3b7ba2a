package disklog

import (
	"testing"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestTail checks that messages as large as those of connectors are read from memory, and that a reader that is too far behind is
// sent to the files. A tail is bounded, but does not drop what nobody has read yet.
func TestTail(t *testing.T) {
	const size = 1<<20 + 64<<10 // 4,096 records of 256 bytes, encoded
	filled := func(n uint64) *tail {
		var tl tail
		for p := range n {
			tl.add(p, journal.Message{Position: p + 1, Records: [][]byte{make([]byte, size)}})
		}
		if tl.bytes > tailBytes {
			t.Errorf("after %d messages it has %d bytes", n, tl.bytes)
		}
		return &tl
	}
	if got := filled(3).after(0, 3*size); len(got) != 3 || got[0].Position != 1 {
		t.Errorf("of three messages it has %d", len(got))
	}
	tl := filled(9)
	if got := tl.after(0, size); got != nil {
		t.Errorf("a reader at the beginning gets %d messages of the end", len(got))
	}
	if got := tl.after(tl.before, size); len(got) == 0 || got[0].Position <= 1 {
		t.Errorf("a reader at the first kept message gets %d", len(got))
	}
}
