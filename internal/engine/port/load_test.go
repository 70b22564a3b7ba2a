package port

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/engine"
)

// TestLoadRefuses checks that a recorded plan is refused if it takes something from an operator that
// is not an input, or records of another type.
func TestLoadRefuses(t *testing.T) {
	g := newTestGraph()
	s := g.NewLocation("here")
	in, n := NewInput[int](s, engine.NewOp(s, "in", ""))
	out := engine.NewOp(s, "out", "")
	NewOutput(n, out)
	g.Start(t.Context())
	for _, x := range []struct {
		op      int32
		records any
		want    string
	}{
		{in.Op.Index, engine.Items[int]{1}, ""},
		{in.Op.Index, engine.Items[string]{"1"}, "takes engine.Items[int], the recording has engine.Items[string]"},
		{out.Index, engine.Items[int]{1}, fmt.Sprintf("operator %d is no input at here", out.Index)},
		{out.Index + 1, engine.Items[int]{1}, fmt.Sprintf("operator %d is no input at here", out.Index+1)},
	} {
		err := s.Load(&engine.Plan{Take: []engine.Take{{Op: x.op, N: 1, Records: x.records}}})
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("operator %d: %v, want %q", x.op, err, x.want)
		}
	}
}
