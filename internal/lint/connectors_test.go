package lint

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGuarantees checks that every guarantee of doc/connectors.md names a test, and that each of
// these tests exists in the package that the page names.
func TestGuarantees(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "doc", "connectors.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := make(map[string]bool)
	for _, f := range sources(t) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test && fn.Recv == nil {
				tests[path.Base(f.dir)+"."+fn.Name.Name] = true
			}
		}
	}
	named := regexp.MustCompile("`([a-z]+\\.Test[A-Za-z0-9_]+)`")
	rows := 0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| ") || strings.HasSuffix(strings.TrimSpace(line), "shown by |") {
			continue
		}
		rows++
		found := named.FindAllStringSubmatch(line, -1)
		if len(found) == 0 {
			t.Errorf("doc/connectors.md: nothing shows what this row says: %s", line)
		}
		for _, f := range found {
			if !tests[f[1]] {
				t.Errorf("doc/connectors.md names %s, which there is not", f[1])
			}
		}
	}
	if rows < 20 {
		t.Errorf("doc/connectors.md has %d rows of guarantees", rows)
	}
}
