package state

import (
	"testing"

	"github.com/millrace/millrace/internal/engine"
)

// TestHold checks that a timer is held only if the slot, key and deadline all match, and that it
// counts as set until it is released. Otherwise a record of another history could stop the wrong timer.
func TestHold(t *testing.T) {
	for _, constant := range []bool{false, true} {
		op := engine.NewOp(engine.New(engine.Settings{}).NewLocation("here"), "Test", "")
		p := NewPending[string, int](engine.Lasting(op), constant)
		set := func(k string, at int64) uint32 {
			slot := p.Slot(k, 0, 0)
			p.Idx.Add(slot, at)
			return slot
		}
		a, b, gone := set("a", 10), set("b", 20), set("c", 30)
		p.Cancel(gone)
		for _, x := range []struct {
			name string
			slot uint32
			key  string
			at   int64
		}{
			{"a slot that never was", gone + 1, "a", 10},
			{"another key", a, "b", 10},
			{"another time", a, "a", 20},
			{"a slot that is free", gone, "", 30},
			{"no time", a, "a", engine.NoDeadline},
		} {
			if p.Hold(x.slot, x.key, x.at) {
				t.Errorf("%s is held", x.name)
			}
		}
		if _, ok := p.Held("a"); ok || p.Len() != 2 {
			t.Errorf("a is held: %v, and %d timers are set", ok, p.Len())
		}
		if !p.Hold(a, "a", 10) {
			t.Error("a is not held")
		}
		if p.Hold(a, "a", engine.NoDeadline) || p.Hold(a, "a", 10) {
			t.Error("what is held can be held again")
		}
		if slot, ok := p.Held("a"); !ok || slot != a || p.Len() != 2 {
			t.Errorf("a is held in slot %d: %v, and %d timers are set", slot, ok, p.Len())
		}
		if at, ok := p.Next(); !ok || at != 20 {
			t.Errorf("the next timer is due at %d, %v", at, ok)
		}
		p.Cancel(b)
		if at, ok := p.Next(); !ok || at != farAway {
			t.Errorf("only one that is held is left, and the next is due at %d, %v", at, ok)
		}
		p.Release(a, 40)
		if at, ok := p.Next(); !ok || at != 40 || p.Len() != 1 {
			t.Errorf("the next timer is due at %d, %v, of %d", at, ok, p.Len())
		}
		if _, ok := p.Held("a"); ok {
			t.Error("a is still held")
		}
	}
}
