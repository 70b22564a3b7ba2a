package windows

import (
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/engine"
)

// TestPanesState checks that the saved states of open spans and their order do not change. A snapshot
// identifies a state by its place among those of its operator, so a snapshot of an earlier version could
// not be loaded with another order.
func TestPanesState(t *testing.T) {
	op := engine.NewOp(engine.New(settings()).NewLocation("here"), "Fold", "")
	newPanes[string, int](engine.Lasting(op))
	want := []string{"[]windows.Pane"}
	for range mostPanes {
		want = append(want, "table(string,int)")
	}
	want = append(want, "table(windows.spanned[string],link int)", "table(int64,chain)", "[]windows.Due[int64]", "uint64")
	var got []string
	for _, s := range op.States {
		got = append(got, s.Kind())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the states are\n%q, and were\n%q", got, want)
	}
}
