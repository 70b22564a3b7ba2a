package form

import (
	"fmt"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// TestNothingFits parses forms with a required field for which there is no value.
func TestNothingFits(t *testing.T) {
	for schema, fits := range map[string]bool{
		`{"type":"integer","minimum":0.2,"maximum":0.8}`:                               false,
		`{"type":"integer","minimum":0.2,"maximum":1.8}`:                               true,
		`{"type":"number","minimum":0.2,"maximum":0.8}`:                                true,
		`{"type":"array","items":{"type":"string","enum":["a","b"]},"minItems":3}`:     false,
		`{"type":"array","items":{"type":"string","enum":["a","b"]},"minItems":2}`:     true,
		`{"type":"array","items":{"type":"string","enum":["a","b"]},"maxItems":1e300}`: false,
	} {
		text := fmt.Sprintf(`{"questions":[{"name":"q","message":"?","schema":{"type":"object","properties":{"f":%s},"required":["f"]}}]}`, schema)
		if _, err := Parse(jsontext.Value(text)); (err == nil) != fits {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

// TestEmptyOption chooses an option whose value is empty.
func TestEmptyOption(t *testing.T) {
	for _, required := range []bool{true, false} {
		f := &Field{Name: "f", Kind: Choice, Required: required, Options: []Option{{Value: "a"}, {Value: "", Title: "None of them"}}}
		if v, err := f.Entered("2"); err != nil || string(v) != `""` {
			t.Errorf("required %v: %q, %v", required, v, err)
		}
	}
}
