package identity

import (
	"reflect"
	"strings"
	"testing"
)

// TestMisfitOfKeys compares what two programs send and take. If one of them has another field in its keys, it places them in
// other partitions, whichever of the two it is.
func TestMisfitOfKeys(t *testing.T) {
	type seat struct {
		Row  int
		Side string `json:",omitempty"`
	}
	const (
		old   = "identity.seat {Row int}"
		grown = "identity.seat {Row int; Side string}"
		other = "identity.seat {Row int; Side string; Level int}"
	)
	type level struct {
		Row   int
		Side  string
		Level int
	}
	operator := func(fields string, key reflect.Type) *Operator {
		return &Operator{Identity: "input seats", Takes: []string{"identity.seat", "int"}, Types: []string{fields}, Divided: true, placed: newPlacing(key)}
	}
	always := newPlacing(reflect.TypeFor[level]())
	always.structs["identity.seat"] = always.structs["identity.level"]
	for _, x := range []struct {
		takes, sends *Operator
		unfit        string
	}{
		{operator(old, nil), operator(grown, reflect.TypeFor[seat]()), ""}, // left out as long as it is zero
		{operator(grown, reflect.TypeFor[seat]()), operator(old, nil), ""},
		{operator(grown, nil), operator(grown, reflect.TypeFor[seat]()), ""},
		{operator(other, nil), operator(grown, reflect.TypeFor[seat]()), "field Level of identity.seat is gone"},
		{&Operator{Identity: "input seats", Takes: []string{"identity.seat", "int"}, Types: []string{other}, Divided: true, placed: always}, operator(grown, nil), "field Level of identity.seat is new"},
		{&Operator{Identity: "input seats", Takes: []string{"identity.seat", "int"}, Types: []string{other}, placed: always}, operator(grown, nil), ""}, // one partition
	} {
		x.sends.Divided = x.sends.placed != nil
		if why := x.takes.Misfit(x.sends); (why == "") != (x.unfit == "") || !strings.Contains(why, x.unfit) {
			t.Errorf("%v, sent to %v: %q, want %q", x.sends.Types, x.takes.Types, why, x.unfit)
		}
	}
}

// TestPlacingOfOneName places keys that contain two structs with one name. A field of that name is left out of a key only if both
// leave it out. It catches an answer that depends on which of the two comes first.
func TestPlacingOfOneName(t *testing.T) {
	type seat struct {
		Side string `json:",omitempty"`
		Row  int    `json:",omitempty"`
	}
	type first = seat
	{
		type seat struct {
			Side string
			Row  int `json:",omitempty"`
		}
		type both struct {
			First  first
			Second seat
		}
		for range 30 { // the structs come in any order
			p := newPlacing(reflect.TypeFor[both]())
			if left := p.structs["identity.seat"]; left["Side"] || !left["Row"] {
				t.Fatalf("left out are %v", left)
			}
		}
	}
}
