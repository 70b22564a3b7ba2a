package lint

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestThreats checks that every threat of the protocol has a test, and that every test that
// doc/threats.md names exists. Otherwise a renamed test would look like an existing defence.
func TestThreats(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "doc", "threats.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := make(map[string]bool)
	for _, f := range sources(t) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test && fn.Recv == nil {
				tests[fn.Name.Name] = true
			}
		}
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")
	rows := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		number, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		if !ok {
			continue
		}
		found := named.FindAllStringSubmatch(line, -1)
		rows[number] += len(found)
		for _, f := range found {
			if !tests[f[1]] {
				t.Errorf("doc/threats.md: threat %s names %s, which there is not", number, f[1])
			}
		}
	}
	for n := 1; n <= 36; n++ {
		if rows[fmt.Sprint(n)] == 0 {
			t.Errorf("doc/threats.md: threat %d has no test", n)
		}
	}
}
