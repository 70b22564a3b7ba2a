package digest

import (
	"math"
	"testing"
)

type tree struct {
	name     string
	children []*tree
	index    map[string]int
}

func TestOf(t *testing.T) {
	a := &tree{"root", []*tree{{name: "leaf"}}, map[string]int{"x": 1, "y": 2, "z": 3}}
	b := &tree{"root", []*tree{{name: "leaf"}}, map[string]int{"z": 3, "y": 2, "x": 1}}
	if Of(a) != Of(b) {
		t.Error("equal values have different digests")
	}
	before := Of(a)
	a.children[0].name = "Leaf"
	if Of(a) == before {
		t.Error("a change behind a pointer is not seen")
	}
	different := []any{
		nil, 0, int8(0), uint(0), "", "0", false, []int(nil), []int{}, []int{0}, [1]int{0}, map[int]int{}, map[int]int{0: 0},
		struct{}{}, struct{ A any }{}, struct{ A any }{0}, struct{ A any }{int64(0)}, (*int)(nil), new(int), 0.0, math.Copysign(0, -1),
		complex(0, 1), complex(1, 0), []string{"ab", "c"}, []string{"a", "bc"}, func() {}, (func())(nil),
	}
	seen := make(map[uint64]int)
	for i, v := range different {
		if j, ok := seen[Of(v)]; ok {
			t.Errorf("%#v and %#v have one digest", v, different[j])
		}
		seen[Of(v)] = i
	}
}

// TestCycle checks that a value that contains itself has a digest.
func TestCycle(t *testing.T) {
	type node struct{ next *node }
	n := new(node)
	n.next = n
	if first, again := Of(n), Of(n); first != again {
		t.Error("the digest of a cycle changes")
	}
}

// TestSame checks that a digest is the same in every process, since files contain digests.
// Another process printed the numbers here.
func TestSame(t *testing.T) {
	for _, test := range []struct {
		v    any
		want uint64
	}{
		{7, 0x57ff20039d0bca68},
		{"a string that is longer than a word", 0x312b383a7e602f60},
		{map[string][]int{"a": {1}, "b": nil}, 0x7186aef29488d207},
		{struct{ A any }{true}, 0xaefa5d5cec56a3ec},
	} {
		if got := Of(test.v); got != test.want {
			t.Errorf("the digest of %v is %#x, want %#x", test.v, got, test.want)
		}
	}
}
