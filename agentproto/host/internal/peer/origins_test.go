package peer

import (
	"testing"
)

// D13: origins are allowed for tool servers that there are.
func TestOriginsRefused(t *testing.T) {
	for base, origin := range map[string]string{"http://unknown.test": "http://back.test", "http://front.test": "ftp://back.test"} {
		_, err := New(Config{Toolsets: []string{"http://front.test"}, ToolsetOrigins: map[string][]string{base: {origin}}})
		if err == nil {
			t.Errorf("%s may name %s", base, origin)
		}
	}
}
