package engine_test

import (
	"testing"

	"github.com/millrace/millrace/internal/engine"
)

// TestClearEntries clears columns of each form: without records, with one, which has a path of its own, and with several. Columns
// whose values are packed have keys and no values. It catches a value that is written where there is none, and records that the
// memory behind the columns keeps alive.
func TestClearEntries(t *testing.T) {
	for n := range 4 {
		for _, packed := range []bool{false, true} {
			var c engine.Columns[*int, *int]
			for range n {
				c.K, c.H = append(c.K, new(int)), append(c.H, 1)
				if !packed {
					c.V = append(c.V, new(int))
				}
			}
			ks, vs := c.K, c.V
			engine.ClearEntries(&c)
			if len(c.K)+len(c.V)+len(c.H) != 0 || cap(c.K) != cap(ks) || cap(c.V) != cap(vs) {
				t.Errorf("%d entries, packed %v: afterwards there are %d keys, %d values and %d hashes, with room for %d keys and %d values",
					n, packed, len(c.K), len(c.V), len(c.H), cap(c.K), cap(c.V))
			}
			for i, k := range ks {
				if k != nil || !packed && vs[i] != nil {
					t.Errorf("%d entries, packed %v: number %d is kept", n, packed, i)
				}
			}
		}
	}
}
