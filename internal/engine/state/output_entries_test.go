package state

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
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

// A packed value is described as the value is, with what its pointers point to: two histories are compared so.
func TestDescribePacked(t *testing.T) {
	to := "Ada"
	plain, packed := keyed.NewTable[int, letter](), keyed.NewTable[int, string]()
	v, _ := plain.Put(1, 1)
	*v = letter{&to}
	p, _ := packed.Put(1, 1)
	*p = `{"To":"Ada"}`
	show := func(x *string) any {
		v := new(letter)
		if err := json.Unmarshal([]byte(*x), v); err != nil {
			t.Error(err)
		}
		return v
	}
	var a, b bytes.Buffer
	newTableState(plain, codec.Of[int]{}, codec.Of[letter]{}).Describe(&codec.Describer{W: &a, Left: -1})
	newTableState(packed, codec.Of[int]{}, codec.Of[string]{Show: show}).Describe(&codec.Describer{W: &b, Left: -1})
	if a.String() != b.String() || !strings.Contains(a.String(), "Ada") {
		t.Errorf("described as %q, and packed as %q", a.String(), b.String())
	}
}
