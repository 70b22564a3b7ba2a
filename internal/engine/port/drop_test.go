package port

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/engine"
)

// TestDropOn checks that an entry exists until the step that drops its key, and that the key can come
// again if the input forgot it. This also holds for an output of entries that can be forgotten.
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

// TestBackInOneStep drops keys in a step in which some of them come back, in another order. After the
// step only the others are gone.
func TestBackInOneStep(t *testing.T) {
	for _, back := range [][]int{{}, {1}, {3}, {5}, {1, 2}, {3, 1}, {5, 3, 1}, {1, 3, 5}, {2, 4, 1, 5}, {5, 4, 3, 2, 1}} {
		g := newTestGraph()
		s := g.NewLocation("here")
		op := func(name string) *engine.Op { return engine.NewOp(s, name, "") }
		in, n := NewEntryInput[int, string](s, op("in"), nil)
		old, keys := NewKeyedInput[int, bool](s, op("old"))
		n.Forgets = true
		out := NewEntryOutput(n, op("out"))
		DropOn(out, keys)
		again, ms := NewKeyedInput[int, string](s, op("again"))
		ms.To(func(b *engine.Batch[int, string]) { n.Push(b) }).One = func(k int, v string, h uint64) { n.One(k, v, h) }
		ctx := context.Background()
		for k := 1; k <= 5; k++ { // before the start, so that all of it is one step
			if err := in.Send(ctx, k, "old"); err != nil {
				t.Fatal(err)
			}
		}
		for k := 1; k <= 5; k++ {
			if err := old.Send(ctx, k, true); err != nil {
				t.Fatal(err)
			}
		}
		for _, k := range back {
			if err := again.Send(ctx, k, "new"); err != nil {
				t.Fatal(err)
			}
		}
		g.Start(ctx)
		for k := 1; k <= 5; k++ {
			if v, ok := out.Get(k); ok != slices.Contains(back, k) || ok && v != "new" {
				t.Errorf("of %v that came back, %d is %q, %v", back, k, v, ok)
			}
		}
		if out.Len() != len(back) {
			t.Errorf("of %v that came back %d are there", back, out.Len())
		}
	}
}
