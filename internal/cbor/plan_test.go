package cbor

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

type label string

type inner struct {
	Long_name_of_a_field_that_is_long bool
	B                                 uint8
}

type simple struct {
	Zebra string
	A     int8
	Bb    int64
	Ab    uint64
	In    inner
	L     label
	D     time.Duration
	U     uint16
	I     int
}

// TestPlans compares what a plan makes of a value with what the package of CBOR makes of it, both
// ways.
func TestPlans(t *testing.T) {
	if p := planOf(reflect.TypeFor[simple]()); p == nil {
		t.Fatal("there is no plan for a simple struct")
	}
	for _, of := range []reflect.Type{
		reflect.TypeFor[time.Time](), reflect.TypeFor[[]byte](), reflect.TypeFor[float64](), reflect.TypeFor[*int](), reflect.TypeFor[map[string]int](),
		reflect.TypeFor[struct{}](), reflect.TypeFor[struct{ inner }](), reflect.TypeFor[struct {
			A int `json:"b"`
		}](),
	} {
		if planOf(of) != nil {
			t.Errorf("there is a plan for %v", of)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	number := func() uint64 { return rng.Uint64() >> rng.IntN(64) }
	text := func() string { return string(bytes.Repeat([]byte{byte(number())}, int(number()%70000>>rng.IntN(17)))) }
	for range 2000 {
		x := simple{
			text(), int8(number()), -int64(number()), number(), inner{rng.IntN(2) == 0, uint8(number())},
			label(text()), -time.Duration(number() / 2), uint16(number()), int(number()),
		}
		same(t, x)
		same(t, x.Zebra)
		same(t, x.Bb)
		same(t, x.Ab)
		same(t, x.In)
	}
	for _, x := range []int64{0, 23, 24, 255, 256, 65535, 65536, math.MaxUint32, math.MaxUint32 + 1, math.MaxInt64, math.MinInt64, -1, -24, -25, -256, -257} {
		same(t, x)
	}
}

func same[T comparable](t *testing.T, x T) {
	t.Helper()
	want, err := encodeMode().Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Codec{}.Append([]byte("before"), x)
	if err != nil || string(got) != "before"+string(want) {
		t.Fatalf("%+v is encoded as %x (%v), want %x", x, got, err, want)
	}
	var back T
	if rest, ok := planOf(reflect.TypeFor[T]()).decode(want, reflect.ValueOf(&back).Elem()); !ok || len(rest) > 0 || back != x {
		t.Fatalf("%x is decoded as %+v, want %+v", want, back, x)
	}
}

// FuzzPlans decodes bytes that may be anything with a plan, where the package of CBOR has to
// decode the same.
func FuzzPlans(f *testing.F) {
	for _, x := range []any{simple{Zebra: "z", I: -300}, "text", -70000, map[string]any{"A": 1.5}, inner{}} {
		data, err := encodeMode().Marshal(x)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, p := range []any{new(simple), new(string), new(int), new(uint8), new(int64), new(bool), new(inner)} {
			want := reflect.New(reflect.TypeOf(p).Elem())
			is := Codec{}.Decode(data, p)
			err := decodeMode().Unmarshal(data, want.Interface())
			if fmt.Sprint(is) != fmt.Sprint(err) || err == nil && !reflect.DeepEqual(p, want.Interface()) {
				t.Errorf("%x is decoded as %+v (%v), want %+v (%v)", data, p, is, want.Elem(), err)
			}
		}
	})
}
