package port

import (
	"context"
	"fmt"
	"testing"

	"github.com/millrace/millrace/internal/engine"
)

// TestDropOn: an entry is there until its key is dropped, in the step that says so, and its key
// can come again if the input forgot it. So it is for an output of entries that can be forgotten.
func TestDropOn(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		t.Run(fmt.Sprint("forgets=", forgets), func(t *testing.T) { dropOn(t, forgets) })
	}
}

func dropOn(t *testing.T, forgets bool) {
	g := newTestGraph()
	s := g.NewLocation("here")
	op := func(name string) *engine.Op { return engine.NewOp(s, name, "") }
	in, n := NewEntryInput[int, string](s, op("in"), nil)
	old, keys := NewKeyedInput[int, bool](s, op("old"))
	n.Forgets = forgets
	out := NewEntryOutput(n, op("out"))
	DropOn(out, keys)
	ForgetOn(in, keys, func(k int) bool { return k == 1 })
	g.Start(context.Background())

	ctx := context.Background()
	want := func(k int, value string, there bool) {
		t.Helper()
		if v, ok := out.Get(k); v != value || ok != there {
			t.Errorf("%d is %q, %v, want %q, %v", k, v, ok, value, there)
		}
	}
	for k, v := range []string{"a", "b", "c"} {
		if err := in.Send(ctx, k, v); err != nil {
			t.Fatal(err)
		}
	}
	for k := range 2 {
		if err := old.Send(ctx, k, true); err != nil {
			t.Fatal(err)
		}
		want(k, "", false)
	}
	want(2, "c", true)
	if err := in.Send(ctx, 0, "x"); err != engine.ErrDuplicate {
		t.Errorf("a key that is not forgotten: %v", err)
	}
	if err := in.Send(ctx, 1, "y"); err != nil {
		t.Error(err)
	}
	want(0, "", false)
	want(1, "y", true)
}
