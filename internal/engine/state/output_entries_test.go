package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
)

// A letter is a value that contains a pointer.
type letter struct{ To *string }

// TestWorthPacking checks which types are kept in encoded form.
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

// TestDescribePacked checks that a packed value is described like the value itself, including
// what its pointers point to. Two histories are compared by these descriptions.
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

// A form is a codec that writes JSON after a word, which identifies the codec.
type form string

func (f form) Check(reflect.Type) error { return nil }

func (f form) Append(dst []byte, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	return append(append(dst, f...), data...), err
}

func (f form) Decode(data []byte, p any) error {
	text, ok := bytes.CutPrefix(data, []byte(f))
	if !ok {
		return fmt.Errorf("%q is not of form %s", data, f)
	}
	return json.Unmarshal(text, p)
}

// TestLoadPacked checks that a value saved with another codec is kept in this program's encoding,
// and that a value that cannot be decoded is found when it is loaded.
func TestLoadPacked(t *testing.T) {
	const own, other = form("own"), form("other")
	g := engine.New(engine.Settings{Codec: own})
	packed := Packed[letter](engine.NewOp(g.NewLocation("here"), "out", ""))
	for _, x := range []struct {
		saved string
		with  form
		want  string // empty if it is refused
	}{
		{`own{"To":"Ada"}`, own, `own{"To":"Ada"}`},
		{`other{"To":"Ada"}`, other, `own{"To":"Ada"}`},
		{`own{"To":"Ada"`, own, ""},
		{`other{"To":"Ada"}`, own, ""},
		{`own{"To":7}`, own, ""},
	} {
		d := &codec.Decoder{Data: codec.AppendString(nil, x.saved)}
		var kept string
		if packed.Load(d, x.with, &kept); kept != x.want || (d.Err == nil) != (x.want != "") {
			t.Errorf("%s, loaded with %s, is kept as %q: %v", x.saved, x.with, kept, d.Err)
		}
		if x.want == "" {
			continue
		}
		if saved, err := packed.Save(nil, own, &kept); err != nil || string(saved) != string(codec.AppendString(nil, x.want)) {
			t.Errorf("%s is saved as %q, %v", kept, saved, err)
		}
	}
}
