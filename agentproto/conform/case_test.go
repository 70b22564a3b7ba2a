package conform

import (
	"regexp"
	"testing"
)

// TestTable wants the whole of the table: 168 cases, each with everything, in their
// order.
func TestTable(t *testing.T) {
	seen := make(map[string]bool)
	id := regexp.MustCompile(`^[A-Z][0-9]{2}$`)
	for _, c := range Cases() {
		if !id.MatchString(c.ID) || seen[c.ID] || c.Action == "" || c.Expected == "" || c.Part == "" {
			t.Errorf("%+v", c)
		}
		if !c.For(Tool) && !c.For(Runtime) {
			t.Errorf("%s is for %q", c.ID, c.Sides)
		}
		seen[c.ID] = true
	}
	if len(seen) != 168 {
		t.Errorf("%d cases, want 168", len(seen))
	}
	if c := Cases(); len(c) != len(table) || table[0].Part != "" {
		t.Error("Cases does not return a copy")
	}
}
