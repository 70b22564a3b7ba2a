package keytext

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

type seat struct{ Row, Number int }

type name string

func TestParse(t *testing.T) {
	for _, x := range []struct {
		of         any
		text, says string // says is part of the error, or the key
	}{
		{seat{}, ` {"Row": 1, "Number": 2} `, "{1 2}"},
		{seat{}, `{}`, "{0 0}"},
		{seat{}, `{"Row": "x"}`, "cannot unmarshal string"},
		{seat{}, `{"Rows": 1}`, `unknown field "Rows"`},
		{seat{}, `{} {}`, "there is more behind it"},
		{seat{}, ``, "EOF"},
		{name(""), `Ada`, "Ada"},
		{name(""), `"Ada"`, "Ada"},
		{name(""), `"Ada" and more`, `"Ada" and more`},
		{name(""), ``, ""},
		{name(""), `null`, "null"},
		{seat{}, ` null `, "null is no key"},
		{0, `null`, "null is no key"},
		{0, `12`, "12"},
		{0, `twelve`, "invalid character"},
		{uint8(0), `300`, "cannot unmarshal number 300"},
	} {
		key, err := Parse(reflect.TypeOf(x.of), x.text)
		switch {
		case err != nil && (!errors.Is(err, Err) || !strings.Contains(err.Error(), x.says)):
			t.Errorf("%q is refused by %v, want %q", x.text, err, x.says)
		case err == nil && (fmt.Sprint(key) != x.says || reflect.TypeOf(key) != reflect.TypeOf(x.of)):
			t.Errorf("%q is %T %v, want %s", x.text, key, key, x.says)
		}
	}
}

// FuzzParse checks that no text makes Parse panic or return a key of another type.
func FuzzParse(f *testing.F) {
	f.Add(`{"Row": 1}`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, of := range []any{seat{}, name(""), 0, [2]bool{}} {
			if key, err := Parse(reflect.TypeOf(of), text); err == nil && reflect.TypeOf(key) != reflect.TypeOf(of) {
				t.Errorf("%q is a %T", text, key)
			}
		}
	})
}
