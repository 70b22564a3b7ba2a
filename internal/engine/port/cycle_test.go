package port

import (
	"testing"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/live"
	"github.com/millrace/millrace/internal/engine/logdriven"
	"github.com/millrace/millrace/internal/engine/operators"
)

// countdown feeds back each number greater than 1, less 1. It returns the input and the operators at
// both ends of the cycle.
func countdown(s *engine.Location) (in *Input[int], head, tail *engine.Op) {
	op := func(name string) *engine.Op { return engine.NewOp(s, name, "") }
	in, n := NewInput[int](s, op("in"))
	head = op("Cycle")
	c, back := NewCycle[int](s, head)
	all := operators.Merge(op("Merge"), n, back)
	less := operators.FilterMap(all, op("FilterMap"), func(x int) (int, bool) { return x - 1, x > 1 })
	c.Complete(operators.EmitStream(operators.BatchStream(engine.NewSlice(s), less, op("BatchStream")), op("EmitStream")), "Complete")
	return in, head, c.op
}

// TestCycleCounts checks that the status counts the records that a cycle took, as for an input.
func TestCycleCounts(t *testing.T) {
	g := live.Drive(engine.New(engine.Settings{Queue: 64, Buffer: 64, Count: true, Wrap: func(p *engine.Panic) error { return p }}))
	in, head, _ := countdown(g.NewLocation("here"))
	g.Start(t.Context())
	if err := in.Send(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	in.Close()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	st := g.Status()[0]
	if got := st.Ops[head.Index].Entered; got != 9 {
		t.Errorf("the cycle took %d records, want 9", got)
	}
	if st.Records != 10 {
		t.Errorf("the location took %d records, want 10", st.Records)
	}
}

// TestFeedWithin checks that an output recorded for an operator without outside readers is refused,
// even if it is empty: the history is not of this program.
func TestFeedWithin(t *testing.T) {
	g := engine.New(engine.Settings{Queue: 64, Buffer: 64, Wrap: func(p *engine.Panic) error { return p }})
	logdriven.Facade(g, jsonCodec{}, nowhere{})
	_, _, tail := countdown(g.NewLocation("here"))
	g.Start(t.Context())
	for _, part := range []string{"", "1"} {
		if err := logdriven.Feed(g, 0, 0, nil, codec.AppendBytes([]byte{byte(tail.Index)}, []byte(part))); err == nil {
			t.Errorf("%q is accepted at %s", part, tail)
		}
	}
}
