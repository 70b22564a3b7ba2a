package state

import (
	"reflect"
	"testing"
)

// A letter is a value with a part elsewhere in memory.
type letter struct{ To *string }

// TestWorthPacking says which types are kept as they are encoded.
func TestWorthPacking(t *testing.T) {
	for _, x := range []struct {
		is   any
		want bool
	}{
		{0, false}, {"", false}, {[2]int{}, false}, {struct{ A, B string }{}, false},
		{&letter{}, true}, {letter{}, true}, {[]int{}, true}, {map[int]int{}, true}, {[1]*int{}, true}, {struct{ A any }{}, true},
	} {
		if got := worthPacking(reflect.TypeOf(x.is)); got != x.want {
			t.Errorf("%T: %v", x.is, got)
		}
	}
}
