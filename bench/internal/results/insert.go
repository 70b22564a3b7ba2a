package results

import (
	"fmt"
	"os"
	"strings"
)

// Insert replaces the text in a document between the marks <!-- name --> and <!-- end of name -->.
func Insert(file, name, text string) error {
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	document, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(document), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no place for a text between %s and %s", file, strings.TrimSpace(begin), end)
	}
	return os.WriteFile(file, []byte(before+begin+text+end+after), 0o644)
}
