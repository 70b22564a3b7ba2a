package logdriven

import (
	"testing"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// TestScratchIsGivenBack checks that buffers for single use are kept only if they are small. A
// state has many parts, and one large entry of each would keep its memory for ever.
func TestScratchIsGivenBack(t *testing.T) {
	g := engine.New(engine.Settings{})
	l := &Executor{loc: g.NewLocation("here")}
	op := engine.NewOp(l.loc, "out", "")
	for _, x := range []struct {
		bytes int
		kept  bool
	}{{1000, true}, {2 << 20, false}} {
		large := make([]byte, x.bytes)
		if _, err := l.give(nil, op, func(dst []byte, _ codec.Codec) ([]byte, error) { return append(dst, large...), nil }); err != nil {
			t.Fatal(err)
		}
		w := entryWriter{buf: large}
		w.take()
		c := Cutter{last: 1, runs: map[uint64]*run{1: {}}, limit: 1 << 30}
		c.section(partID{}, sectionEntries, large)
		c.piece()
		for what, kept := range map[string]int{"an output": cap(l.part), "a part": cap(w.buf), "a piece": cap(c.out)} {
			if (kept > 0) != x.kept {
				t.Errorf("of %d bytes of %s, %d are kept", x.bytes, what, kept)
			}
		}
	}
}
