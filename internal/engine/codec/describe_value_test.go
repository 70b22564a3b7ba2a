package codec

import (
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"
)

type plainKey struct{ A, B string }

func (k plainKey) String() string { return k.A + "/" + k.B }

type nested struct {
	Text *string
	next *nested
	Any  any
	All  map[string]*int
}

func (n nested) String() string { return fmt.Sprintf("%v", n.Text) }

// TestShown checks that a description contains no addresses, which differ from run to run, and no
// characters that a terminal interprets or does not show.
func TestShown(t *testing.T) {
	text, one := "x", 1
	loop := &nested{}
	loop.next = loop
	tests := []struct {
		v    any
		want string
	}{
		{nil, "<nil>"},
		{7, "7"},
		{int8(-7), "-7"},
		{true, "true"},
		{1.5, "1.5"},
		{"good morning", "good morning"},
		{"größer 大", "größer 大"},
		{"a\nstep 3", `"a\nstep 3"`},
		{"\x1b[2J", `"\x1b[2J"`},
		{"\u009b2J", `"\u009b2J"`},
		{"abc\u202edef", `"abc\u202edef"`},
		{"\U000e0041", `"\U000e0041"`},
		{"\xff", `"\xff"`},
		{[]byte(`{"a":1}`), `{"a":1}`},
		{[]byte{0xff, 1}, "[255 1]"},
		{[2]byte{1, 2}, "[1 2]"},
		{[]string{"a", "b\x00"}, `[a "b\x00"]`},
		{plainKey{"t", "c"}, "t/c"},
		{plainKey{"t", "\x1b"}, `"t/\x1b"`},
		{&plainKey{"t", "c"}, "&t/c"},
		{(*plainKey)(nil), "<nil>"},
		{3 * time.Second, "3s"},
		{time.Unix(0, 0).UTC(), "1970-01-01 00:00:00 +0000 UTC"},
		{netip.MustParseAddr("::1"), "::1"},
		{big.NewInt(12), "12"},
		{errors.New("no"), "no"},
		{nested{Text: &text, Any: &one, All: map[string]*int{"b": &one, "a": nil}}, "{Text:&x next:<nil> Any:&1 All:map[a:<nil> b:&1]}"},
		{loop, ""},
	}
	for _, test := range tests {
		got := fmt.Sprintf("%v", shown{test.v})
		if test.want != "" && got != test.want {
			t.Errorf("%#v is shown as %s, want %s", test.v, got, test.want)
		}
		if plus := fmt.Sprintf("%+v", shown{test.v}); plus != got || len(got) > 1000 {
			t.Errorf("%#v is shown as %s and as %s", test.v, got, plus)
		}
	}
}

type loud int

func (loud) String() string { panic("called") }

type wrong struct{ Why string }

func (wrong) Error() string { panic("called") }

// TestShow checks that a location's state is shown without calling methods of the program, and
// only up to a limit.
func TestShow(t *testing.T) {
	many := make(map[int]int)
	for i := range largestMap + 1 {
		many[i] = i
	}
	tests := []struct {
		v    any
		most int
		want string
	}{
		{loud(3), 100, "3"},
		{[]loud{1, 2}, 100, "[1 2]"},
		{wrong{"x"}, 100, "{Why:x}"},
		{struct{ E error }{wrong{"x"}}, 100, "{E:{Why:x}}"},
		{map[loud]bool{1: true}, 100, "map[1:true]"},
		{3 * time.Second, 100, "3s"},
		{struct{ A, B any }{uint8(1), 1.5}, 100, "{A:1 B:1.5}"},
		{complex(1, 2), 100, "(1+2i)"},
		{many, 100, "map[1001 entries]"},
		{strings.Repeat("a", 1<<20), 5, "aaaaa…"},
		{strings.Repeat("ö", 1<<20), 5, "öö…"},
		{[]byte(strings.Repeat("a", 1<<20)), 5, "aaaaa…"},
		{make([]int, 1<<20), 6, "[0 0 0…"},
		{make([]int, 3), 7, "[0 0 0]"},
		{"", 0, ""},
		{nil, 10, "<nil>"},
	}
	for _, test := range tests {
		if got := Show(test.v, test.most); got != test.want {
			t.Errorf("%T is shown as %q, want %q", test.v, got, test.want)
		}
	}
}
