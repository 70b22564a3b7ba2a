package cbor

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// A rated has a field that only the CBOR package encodes, so that it has no plan.
type rated struct {
	At   time.Time
	Rate float64
	More map[string][]*time.Time
}

// TestTimes checks that a time is decoded as the same instant, in types with and without a plan, or is refused.
func TestTimes(t *testing.T) {
	paris, err := time.LoadLocation("Europe/Paris")
	if err != nil {
		t.Fatal(err)
	}
	date := func(year int, zone *time.Location) time.Time { return time.Date(year, 7, 14, 12, 30, 0, 5, zone) }
	offset := func(d time.Duration) *time.Location { return time.FixedZone("", int(d.Seconds())) }
	for _, x := range []struct {
		at      time.Time
		refused bool
	}{
		{at: date(1880, paris)}, // nine minutes and 21 seconds
		{at: date(2000, offset(time.Second))}, {at: date(2000, offset(-time.Second))}, {at: date(2000, offset(90*time.Minute))},
		{at: date(2000, offset(24*time.Hour))}, {at: date(2000, offset(-30*time.Hour))}, {at: date(2000, offset(23*time.Hour))},
		{at: date(0, time.UTC)}, {at: date(9999, time.UTC)}, {at: time.Time{}}, {at: time.Time{}.In(paris)},
		{at: time.Date(9999, 12, 31, 23, 59, 59, 0, offset(-time.Hour))}, // the year 10000 in UTC
		{at: time.Date(9999, 12, 31, 23, 59, 59, 0, offset(-time.Second)), refused: true},
		{at: date(-1, time.UTC), refused: true}, {at: date(10000, time.UTC), refused: true}, {at: time.Unix(1<<60, 0), refused: true},
	} {
		for name, as := range map[string]func() (any, any, func(any) time.Time){
			"planned": func() (any, any, func(any) time.Time) {
				return x.at, new(time.Time), func(p any) time.Time { return *p.(*time.Time) }
			},
			"not planned": func() (any, any, func(any) time.Time) {
				return rated{At: x.at}, new(rated), func(p any) time.Time { return p.(*rated).At }
			},
			"in a map": func() (any, any, func(any) time.Time) {
				return rated{More: map[string][]*time.Time{"a": {nil, &x.at}}}, new(rated), func(p any) time.Time {
					if at := p.(*rated).More["a"][1]; at != nil { // a pointer to the zero time is decoded as nil
						return *at
					}
					return time.Time{}
				}
			},
		} {
			in, p, at := as()
			data, err := Codec{}.Append(nil, in)
			if (err != nil) != x.refused {
				t.Errorf("%s: encoding %v: %v", name, x.at, err)
			}
			if err != nil {
				continue
			}
			if err := (Codec{}).Decode(data, p); err != nil || !at(p).Equal(x.at) {
				t.Errorf("%s: %v is decoded as %v (%v)", name, x.at, at(p), err)
			}
			if again, err := (Codec{}).Append(nil, reflect.ValueOf(p).Elem().Interface()); err != nil || string(again) != string(data) {
				t.Errorf("%s: %v is encoded as %x, and as %x (%v) after it was decoded", name, x.at, data, again, err)
			}
		}
	}
}

// A link is a list as deep as it is long.
type link struct {
	N    int
	Next *link
}

// TestNesting checks that a value that Append accepts can be decoded, however deep it is.
func TestNesting(t *testing.T) {
	list := func(n int) (l *link) {
		for i := range n {
			l = &link{i, l}
		}
		return l
	}
	type holder struct {
		Name string
		List *link
	}
	for _, n := range []int{1, 300, 59_000} {
		data, err := Codec{}.Append(nil, holder{"a", list(n)})
		if err != nil {
			t.Fatal(n, err)
		}
		var back holder
		if err := (Codec{}).Decode(data, &back); err != nil {
			t.Fatal(n, err)
		}
		got := 0
		for l := back.List; l != nil; l = l.Next {
			got++
		}
		if got != n {
			t.Errorf("a list of %d is decoded as one of %d", n, got)
		}
	}
	if _, err := (Codec{}).Append(nil, holder{"a", list(70_000)}); err == nil {
		t.Error("a list of 70000 is encoded and could not be decoded")
	}
}

// TestDecodeExact checks that a field that a type does not have is an error, wherever it is.
func TestDecodeExact(t *testing.T) {
	type old struct{ A, B int }
	type now struct {
		A int
		B int `json:"b"` // decoded all the same
	}
	type renamed struct {
		A int
		B int `json:"other,omitempty"`
	}
	type in[T any] struct {
		Name string
		More map[string]T
		List []T
	}
	data, err := Codec{}.Append(nil, in[old]{"x", map[string]old{"a": {1, 2}}, []old{{3, 4}}})
	if err != nil {
		t.Fatal(err)
	}
	var same in[now]
	if err := (Codec{}).DecodeExact(data, &same); err != nil || same.More["a"].B != 2 || same.List[0].B != 4 {
		t.Errorf("%+v, %v", same, err)
	}
	var other in[renamed]
	if err := (Codec{}).Decode(data, &other); err != nil || other.List[0].A != 3 {
		t.Errorf("%+v, %v", other, err)
	}
	var unknown *UnknownFieldError
	if err := (Codec{}).DecodeExact(data, &other); !errors.As(err, &unknown) || !strings.Contains(err.Error(), `"B": 4`) {
		t.Errorf("%v", err)
	}
	if err := (Codec{}).DecodeExact([]byte{0xff}, &other); err == nil || errors.As(err, &unknown) {
		t.Errorf("%v", err)
	}
}

// TestZones checks that two decoded times with the same offset are equal, in types with and without a plan. They are the parts of
// keys.
func TestZones(t *testing.T) {
	type key struct{ At time.Time }
	type other struct {
		Rate  float32
		Times [2]time.Time
		Each  map[time.Time]*time.Time
	}
	for _, offset := range []int{0, 3600, 19800, -34200, 60} {
		at := time.Date(2026, 11, 30, 10, 0, 0, 5, time.FixedZone("IST", offset))
		kept := func(v any) []byte {
			data, err := Codec{}.Append(nil, v)
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		var a, b time.Time
		var k, l key
		var o, p other
		for _, x := range []struct {
			data []byte
			p    any
		}{
			{kept(at), &a}, {kept(at), &b}, {kept(key{at}), &k}, {kept(key{at}), &l},
			{kept(other{1, [2]time.Time{at, at}, map[time.Time]*time.Time{at: &at}}), &o},
			{kept(other{1, [2]time.Time{at, at}, map[time.Time]*time.Time{at: &at}}), &p},
		} {
			if err := (Codec{}).Decode(x.data, x.p); err != nil {
				t.Fatal(err)
			}
		}
		if a != b || k != l || !a.Equal(at) || a.String() != k.At.String() {
			t.Errorf("offset %d: %v and %v, %v and %v", offset, a, b, k, l)
		}
		if o.Times != p.Times || o.Times[0] != a || len(o.Each) != 1 || o.Each[a] == nil || *o.Each[a] != a {
			t.Errorf("offset %d, in a type without a plan: %v and %v", offset, o, p)
		}
		if _, got := a.Zone(); got != offset {
			t.Errorf("offset %d is decoded as %d", offset, got)
		}
	}
}

// TestZonesOfNaN decodes a map with keys under which nothing is found. It has as many entries afterwards.
func TestZonesOfNaN(t *testing.T) {
	at := time.Date(2026, 11, 30, 10, 0, 0, 5, time.FixedZone("IST", 19800))
	data, err := Codec{}.Append(nil, map[float64]time.Time{math.NaN(): at, 1: at})
	if err != nil {
		t.Fatal(err)
	}
	var back map[float64]time.Time
	if err := (Codec{}).Decode(data, &back); err != nil || len(back) != 2 || !back[1].Equal(at) {
		t.Errorf("%v, %v", back, err)
	}
}
