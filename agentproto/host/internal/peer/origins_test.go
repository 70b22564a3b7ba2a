package peer

import (
	"testing"
)

// TestOriginsRefused checks that origins can be allowed only for configured tool servers,
// and must be valid (D13).
func TestOriginsRefused(t *testing.T) {
	for base, origin := range map[string]string{"http://unknown.test": "http://back.test", "http://front.test": "ftp://back.test"} {
		_, err := New(Config{Toolsets: []string{"http://front.test"}, ToolsetOrigins: map[string][]string{base: {origin}}})
		if err == nil {
			t.Errorf("%s may name %s", base, origin)
		}
	}
}
