package claims

import (
	"errors"
	"testing"

	"github.com/millrace/millrace/internal/engine"
)

var errBroken = errors.New("a claim does not hold")

// A watching records broken claims.
type watching struct{ broken []Broken }

func (*watching) Observed(string, uint64, uint64) {}
func (*watching) Note(func() string)              {}
func (*watching) Published(*engine.Op, any)       {}
func (*watching) Unchecked(*engine.Op, string)    {}
func (w *watching) Broken(b Broken) error         { w.broken = append(w.broken, b); return errBroken }

// watched returns an operator whose claims w checks.
func watched(w *watching) *engine.Op {
	return engine.NewOp(engine.New(engine.Settings{Watch: w}).NewLocation("here"), "Test", "")
}

// TestMonotone applies a function to values in any order. A monotone function passes in every order. For
// one that is not, two values in either order reveal it, and the message names the smaller value first.
func TestMonotone(t *testing.T) {
	for _, xs := range [][]int{{1, 2, 3}, {3, 2, 1}, {2, 3, 1}, {5, 5, 5}} {
		w := &watching{}
		f := Monotone(watched(w), func(x int) int { return 10 * x }, false)
		for _, x := range xs {
			if y := f(x); y != 10*x {
				t.Errorf("of %v, %d becomes %d", xs, x, y)
			}
		}
	}
	for _, xs := range [][]int{{1, 2}, {2, 1}} {
		w := &watching{}
		f := Monotone(watched(w), func(x int) int { return -x }, false)
		f(xs[0])
		func() {
			defer func() { recover() }()
			f(xs[1])
		}()
		if len(w.broken) != 1 || w.broken[0].A != 1 || w.broken[0].B != 2 || w.broken[0].One != -1 || w.broken[0].Other != -2 {
			t.Errorf("of %v, which are turned around, was found %+v", xs, w.broken)
		}
	}
	for _, results := range [][]int{{1, 2}, {2, 1}} {
		w := &watching{}
		n := 0
		f := Monotone(watched(w), func(int) int { n++; return results[n-1] }, false)
		f(7)
		func() {
			defer func() { recover() }()
			f(7)
		}()
		if len(w.broken) != 1 || w.broken[0].One != 2 || w.broken[0].Other != 1 {
			t.Errorf("of one value with the results %v was found %+v", results, w.broken)
		}
	}
}
