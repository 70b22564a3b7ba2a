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
