package cbor

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"
	"time"

	fx "github.com/fxamacker/cbor/v2"
	"github.com/go-json-experiment/json/jsontext"
)

type label string

type label8 uint8

type zeroed struct{ A int }

func (z zeroed) IsZero() bool { return z.A == 7 }

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

type tagged struct {
	Zebra   string         `json:"z"`
	ID      *string        `json:"call_id,omitzero"`
	List    []inner        `json:"list"`
	Texts   []string       `json:"texts,omitempty"`
	Raw     jsontext.Value `json:"raw,omitempty"`
	Bytes   []byte         `cbor:"b,omitzero" json:"not this"`
	At      time.Time      `json:",omitzero"`
	Made    time.Time
	In      *inner
	Deep    **uint16       `json:"deep,omitempty"`
	Counts  map[string]int `json:"counts"`
	Self    *tagged
	N       int  `json:"n,omitempty"`
	Yes     bool `json:"yes,omitzero"`
	Pair    [2]uint8
	Holding struct {
		A []int `json:"a,omitempty"`
	} `json:"holding,omitzero"`
}

// TestPlans compares plans with the CBOR package, in encoding and in decoding.
func TestPlans(t *testing.T) {
	for _, of := range []reflect.Type{reflect.TypeFor[simple](), reflect.TypeFor[time.Time](), reflect.TypeFor[[]byte](), reflect.TypeFor[*int](), reflect.TypeFor[tagged]()} {
		if planOf(of) == nil {
			t.Errorf("there is no plan for %v", of)
		}
	}
	for _, of := range []reflect.Type{
		reflect.TypeFor[float64](), reflect.TypeFor[map[string]int](), reflect.TypeFor[[]label8](), reflect.TypeFor[fx.RawMessage](), reflect.TypeFor[netip.Addr](),
		reflect.TypeFor[struct{}](), reflect.TypeFor[struct{ inner }](), reflect.TypeFor[struct {
			A int `cbor:"1,keyasint"`
		}](), reflect.TypeFor[struct {
			A float64 `json:",omitempty"`
		}](), reflect.TypeFor[struct {
			A int
			B int `json:"A"`
		}](), reflect.TypeFor[struct {
			A int `json:"-"`
		}](), reflect.TypeFor[struct {
			A zeroed `json:",omitzero"`
		}](), reflect.TypeFor[struct {
			A int `json:",omitempty,omitzero"`
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
		same(t, randomTagged(rng, text, 2))
	}
	for _, x := range []tagged{{}, {List: []inner{}, Texts: []string{}, Raw: jsontext.Value{}, Bytes: []byte{}, Counts: map[string]int{}}} {
		same(t, x)
		same(t, &x)
		same(t, []tagged{x, x})
	}
	for _, x := range []int64{0, 23, 24, 255, 256, 65535, 65536, math.MaxUint32, math.MaxUint32 + 1, math.MaxInt64, math.MinInt64, -1, -24, -25, -256, -257} {
		same(t, x)
	}
}

// randomTagged returns a random value with values nested at most deep levels.
func randomTagged(rng *rand.Rand, text func() string, deep int) (x tagged) {
	some := func() bool { return rng.IntN(2) == 0 }
	x = tagged{Zebra: text(), N: rng.IntN(3), Yes: some(), Pair: [2]uint8{1, 2}}
	for range rng.IntN(700) {
		x.List = append(x.List, inner{some(), uint8(rng.IntN(255))})
	}
	for range rng.IntN(3) {
		x.Texts = append(x.Texts, text())
		x.Holding.A = append(x.Holding.A, rng.IntN(1000))
	}
	if some() {
		id, n := text(), uint16(rng.IntN(1<<16))
		at := &n
		x.ID, x.Deep, x.In = &id, &at, &inner{some(), 3}
	}
	if some() {
		x.Raw, x.Bytes, x.Counts = jsontext.Value(`{"a": 1}`), []byte(text()), map[string]int{"b": 1, "a": 2}
		x.At = time.Unix(rng.Int64N(1<<33), rng.Int64N(1e9)).UTC()
		x.Made = x.At.In(time.FixedZone("", 3600*(rng.IntN(20)-10)+60*rng.IntN(60)))
	}
	if deep > 0 && some() {
		within := randomTagged(rng, text, deep-1)
		x.Self = &within
	}
	return x
}

func same[T any](t *testing.T, x T) {
	t.Helper()
	want, err := encodeMode().Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Codec{}.Append([]byte("before"), x)
	if err != nil || string(got) != "before"+string(want) {
		t.Fatalf("%+v is encoded as %x (%v), want %x", x, got, err, want)
	}
	alike := func(v any, data []byte) bool { // compares encodings, since equal zones may be different pointers
		again, err := encodeMode().Marshal(v)
		var other T
		return err == nil && bytes.Equal(again, data) && decodeMode().Unmarshal(data, &other) == nil && reflect.DeepEqual(v, any(other))
	}
	var back T
	if rest, ok := planOf(reflect.TypeFor[T]()).decode(want, reflect.ValueOf(&back).Elem(), decodeMode()); !ok || len(rest) > 0 || !alike(back, want) {
		t.Fatalf("%x is decoded as %+v, want %+v", want, back, x)
	}
}

// FuzzPlans decodes arbitrary bytes with a plan. The CBOR package must decode the same.
func FuzzPlans(f *testing.F) {
	for _, x := range []any{simple{Zebra: "z", I: -300}, tagged{Zebra: "z", At: time.Unix(1, 2).UTC(), Bytes: []byte{1}, List: make([]inner, 2)}, tagged{}, []string{"a"}, time.Unix(1, 0), "text", -70000, map[string]any{"A": 1.5}, inner{}} {
		data, err := encodeMode().Marshal(x)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, p := range []any{new(simple), new(tagged), new([]tagged), new(*inner), new(time.Time), new([]byte), new([]string), new(string), new(int), new(uint8), new(int64), new(bool), new(inner)} {
			want := reflect.New(reflect.TypeOf(p).Elem())
			is := Codec{}.Decode(data, p)
			err := decodeMode().Unmarshal(data, want.Interface())
			if fmt.Sprint(is) != fmt.Sprint(err) || err == nil && !reflect.DeepEqual(p, want.Interface()) {
				t.Errorf("%x is decoded as %+v (%v), want %+v (%v)", data, p, is, want.Elem(), err)
			}
		}
	})
}
