package state

import (
	"testing"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/keyed"
)

// TestDeadlinesForget sets timers of many entries and cancels or fires them. When the last one is gone,
// nothing of them must be left to save: otherwise every snapshot would record for each former entry that
// it has no timer.
func TestDeadlinesForget(t *testing.T) {
	for name, end := range map[string]func(d *Deadlines, n uint32){
		"taken back": func(d *Deadlines, n uint32) {
			for i := range n {
				if !d.Cancel(i) {
					t.Errorf("entry %d has no timer", i)
				}
			}
		},
		"fired": func(d *Deadlines, n uint32) { d.Expire(int64(n), func(uint32) {}) },
	} {
		op := engine.NewOp(engine.New(engine.Settings{}).NewLocation("here"), "Test", "")
		m := engine.Lasting(op)
		table := NewTable(m, Plain[int], Plain[int])
		d := NewVaryingDeadlines(m, table, true)
		s := op.States[1].(engine.Numbered)
		s.Mark(func(uint32) {})
		const n = 3 * keyed.PageLen
		for round := range 3 {
			for i := range uint32(n) {
				d.Add(i, int64(i))
			}
			if numbers, live := s.Count(); numbers != n || live != n {
				t.Errorf("%s, round %d: %d timers with %d numbers are saved, want %d", name, round, live, numbers, n)
			}
			end(d, n)
			if numbers, live := s.Count(); numbers != 0 || live != 0 || len(d.pages) != 0 {
				t.Errorf("%s, round %d: %d timers with %d numbers are saved, of %d pages, and none is set", name, round, live, numbers, len(d.pages))
			}
		}
	}
}
