package port

import (
	"context"
	"testing"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// TestLifeCalls checks that when a life ends, its running calls are cancelled and its waiting calls do
// not begin. Calls of other lives are not affected. If the history is kept, nothing happens until the
// end is durable. A life whose answers have all come takes no memory.
func TestLifeCalls(t *testing.T) {
	for _, kept := range []bool{false, true} {
		g := engine.New(engine.Settings{})
		if kept {
			g.Settings.Codec = struct{ codec.Codec }{}
		}
		l := NewLifeCalls(g.NewLocation("here"))
		for life := range uint64(2) {
			CallOfLife(t.Context(), l, life, 0, func(ctx context.Context) int {
				l.End(life, 2)
				if ended := ctx.Err() != nil; ended == kept {
					t.Errorf("kept %v: that the life has ended is told to its call: %v", kept, ended)
				}
				if l.committed(); ctx.Err() == nil {
					t.Errorf("kept %v: it is not told when that is durable", kept)
				}
				CallOfLife(t.Context(), l, life, 1, func(context.Context) int {
					t.Errorf("kept %v: a call begins of a life that is over", kept)
					return 0
				})
				ran := false
				CallOfLife(t.Context(), l, life+10, 0, func(ctx context.Context) int {
					ran = ctx.Err() == nil
					return 0
				})
				if !ran {
					t.Errorf("kept %v: a call of another life does not run", kept)
				}
				return 0
			})
			l.Drop(life)
			if len(l.over) != 1 {
				t.Errorf("kept %v: an answer is to come, and it is of %d lives", kept, len(l.over))
			}
			l.Drop(life)
			if n := len(l.over) + len(l.ending) + len(l.running); n != 0 {
				t.Errorf("kept %v: %d lives or calls are still there", kept, n)
			}
		}
		if n := l.droppedSoFar(); n != 4 {
			t.Errorf("%d answers were dropped, want 4", n)
		}
	}
}
