package port

import (
	"fmt"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// TestUnsentChanges gives elements to an edge of a location with an external history: in a step, and
// from the history's record of a step. The edge must note the places of exactly these elements as
// changed. A snapshot lacks a place that is not noted, and is larger by one noted needlessly.
func TestUnsentChanges(t *testing.T) {
	sending := func() *exchange[int] {
		g := engine.New(engine.Settings{Queue: 64, Buffer: 64, Wrap: func(p *engine.Panic) error { return p }})
		logdriven.Drive(g, jsonCodec{}, nil)
		here, there := g.NewLocation("here"), g.NewLocation("there")
		_, n := NewInput[int](here, engine.NewOp(here, "in", ""))
		Exchange(n, engine.NewOp(there, "Exchange", ""))
		g.Start(t.Context())
		return here.OutputsInOrder[0].(*exchange[int])
	}
	made, adopts := sending(), sending()
	next := 0
	for _, n := range []int{1, 2, 0, 3} {
		var want []uint32
		for range n {
			made.step = append(made.step, next)
			want = append(want, uint32(next))
			next++
		}
		marks := made.Queue.Mark(func(uint32) {})
		marks.Note()
		part, err := made.Emit(nil, jsonCodec{})
		if err != nil {
			t.Fatal(err)
		}
		if got := marks.Noted(); !slices.Equal(got, want) {
			t.Errorf("a step gives %d elements, and these places have changed: %d, want %d", n, got, want)
		}
		marks = adopts.Queue.Mark(func(uint32) {})
		marks.Note()
		d := &codec.Decoder{Data: part}
		if adopts.Adopt(d, jsonCodec{}); d.Err != nil || len(d.Data) > 0 {
			t.Fatal(d.Err, d.Data)
		}
		if got := marks.Noted(); !slices.Equal(got, want) {
			t.Errorf("a step gave %d elements, and these places have changed: %d, want %d", n, got, want)
		}
	}
	if made, adopted := fmt.Sprint(made.buf), fmt.Sprint(adopts.buf); made != adopted || len(adopts.buf) != next {
		t.Errorf("%s was given, and %s is kept", made, adopted)
	}
}
