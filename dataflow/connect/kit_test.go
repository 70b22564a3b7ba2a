package connect_test

import (
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect/connecttest"
)

// TestKit runs the kit on a reader in memory that is right.
func TestKit(t *testing.T) {
	connecttest.Reader(t, func(t *testing.T) connecttest.Source[string, int] {
		s := newShelf()
		want := map[string][]int{"a": s.fill("a", 40), "bb": s.fill("bb", 60)}
		for split := range want {
			s.put(split, record{at: dataflow.Position{Major: 1000}, bad: "no number"})
		}
		return connecttest.Source[string, int]{
			Reader: s, Want: want, Bad: 1,
			Forget: s.forget,
			Remake: func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.made++
			},
		}
	})
}
