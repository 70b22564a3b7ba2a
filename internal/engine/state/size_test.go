package state

import (
	"testing"

	"github.com/millrace/millrace/internal/engine"
)

// TestRecentSize checks that the size that a set of recent keys reports for the status counts each key
// once, whatever its generation.
func TestRecentSize(t *testing.T) {
	op := engine.NewOp(engine.New(engine.Settings{}).NewLocation("here"), "Test", "")
	set := NewRecent[int](engine.Lasting(op))
	hash := engine.Hasher[int]()
	for k := range 50 {
		if set.Add(k, hash.Hash(k)); k%20 == 10 {
			set.Turn()
		}
		n := 0
		for _, s := range op.States {
			keys, _ := s.Size()
			n += keys
		}
		if n != set.Len() || n == 0 {
			t.Errorf("after %d keys the size of the states is %d, and %d keys are there", k+1, n, set.Len())
		}
	}
}
