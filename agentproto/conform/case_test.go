package conform

import (
	"regexp"
	"testing"
)

// TestTable checks that the table holds all 169 cases, each complete, and that Cases
// returns a copy.
func TestTable(t *testing.T) {
	seen := make(map[string]bool)
	id := regexp.MustCompile(`^[A-Z][0-9]{2}$`)
	section := regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
	for _, c := range Cases() {
		if !id.MatchString(c.ID) || seen[c.ID] || c.Action == "" || c.Expected == "" || !section.MatchString(c.Section) {
			t.Errorf("%+v", c)
		}
		if !c.For(Tool) && !c.For(Runtime) {
			t.Errorf("%s is for %q", c.ID, c.Sides)
		}
		seen[c.ID] = true
	}
	if len(seen) != 169 {
		t.Errorf("%d cases, want 169", len(seen))
	}
	Cases()[0].Section = "0"
	if table[0].Section == "0" {
		t.Error("Cases does not return a copy")
	}
}
