package cbor

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

type one struct{ X, Y int }

type two struct{ X int }

type binaryOnly struct{ N int }

func (b binaryOnly) MarshalBinary() ([]byte, error) { return []byte{byte(b.N)}, nil }

type mismatched struct{ N int }

func (m mismatched) MarshalCBOR() ([]byte, error)  { return []byte{byte(m.N)}, nil }
func (m *mismatched) UnmarshalBinary([]byte) error { return nil }

// TestCheckLost checks that types are refused of which a part would not come back.
func TestCheckLost(t *testing.T) {
	for _, x := range []struct {
		of   any
		want string // in the error; empty if the type is accepted
	}{
		{struct {
			A int
			B int `json:"A"`
		}{}, `fields A and B of `},
		{struct {
			A int `json:"x"`
			B int `cbor:"x,omitempty"`
		}{}, `are both encoded as "x"`},
		{struct {
			A int `cbor:"1,keyasint"`
			B int `cbor:"1,keyasint"`
		}{}, "fields A and B"},
		{struct {
			A int `cbor:"1,keyasint"`
			B int `cbor:"1"`
		}{}, ""},
		{struct {
			one
			X int
		}{}, "fields cbor.one.X and X"},
		{struct {
			one
			two
		}{}, "fields cbor.one.X and cbor.two.X"},
		{struct {
			one `json:"named"`
			Y   int
		}{}, ""},
		{struct {
			one
			Z int
		}{}, ""},
		{[]map[string]binaryOnly{}, "UnmarshalBinary"},
		{struct {
			At *time.Time
			Of *netip.Addr
		}{}, ""},
		{mismatched{}, "UnmarshalCBOR"},
		{mismatched.MarshalCBOR, "no encoding"},
	} {
		err := Codec{}.Check(reflect.TypeOf(x.of))
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%T: %v, want %q", x.of, err, x.want)
		}
	}
}
