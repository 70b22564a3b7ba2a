package state

import (
	"encoding/binary"
	"testing"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// TestLoadTimersRefuses checks that a wrong number of slots is an error, and so is a list of free slots
// that does not contain each of them once. Otherwise a number that is too large would allocate all memory.
func TestLoadTimersRefuses(t *testing.T) {
	numbers := func(all ...uint64) (dst []byte) {
		for _, n := range all {
			dst = binary.AppendUvarint(dst, n)
		}
		return dst
	}
	for _, x := range []struct {
		name  string
		whole []byte   // the number of slots, the next free slot plus one, and how often a timer was set
		free  []uint64 // for each slot, the free slot after it plus one
		fails bool
	}{
		{"nothing", numbers(0, 0, 0), nil, false},
		{"one that is free", numbers(1, 1, 1), []uint64{0}, false},
		{"two that are free", numbers(2, 1, 2), []uint64{2, 0}, false},
		{"too many", numbers(1<<40, 0, 0), nil, true},
		{"too few", numbers(0, 0, 0), []uint64{0}, true},
		{"cut off", numbers(1, 1), []uint64{0}, true},
		{"a free one is in no list", numbers(1, 0, 1), []uint64{0}, true},
		{"one of two free ones is in no list", numbers(2, 1, 2), []uint64{0, 0}, true},
		{"the list begins behind the last slot", numbers(1, 2, 1), []uint64{0}, true},
		{"the list goes on behind the last slot", numbers(2, 1, 2), []uint64{9, 0}, true},
		{"the list has no end", numbers(2, 1, 2), []uint64{2, 1}, true},
	} {
		op := engine.NewOp(engine.New(engine.Settings{}).NewLocation("here"), "Test", "")
		p := NewPending[int, int](engine.Lasting(op), false)
		s := &timersState[int, int]{p: p, key: Plain[int](op), value: Plain[int](op)}
		d := &codec.Decoder{}
		for i, under := range x.free {
			d.Data = numbers(0, under)
			s.LoadEntry(d, nil, uint32(i))
		}
		d.Data = x.whole
		if s.Load(d, nil); (d.Err != nil) != x.fails {
			t.Errorf("%s: %v", x.name, d.Err)
			continue
		}
		if x.fails {
			continue
		}
		for i := range x.free {
			if slot := p.Slot(i, i, 0); int(slot) != i {
				t.Errorf("%s: slot %d is taken next, want %d", x.name, slot, i)
			}
		}
	}
}
