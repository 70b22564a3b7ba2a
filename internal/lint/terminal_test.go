package lint

import (
	"go/ast"
	"slices"
	"testing"
)

// raw are the files of the command that write to a terminal as it is: where the writers are
// made that others use, and what moves the cursor or paints by itself.
var raw = []string{"output.go", "demo.go", "run.go"}

// TestTerminal wants whatever the command prints to go through package plain: a tool, a tool
// server or a model had a word in most of it.
func TestTerminal(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || f.dir != "cmd/millrace" || slices.Contains(raw, f.name) {
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && (s.Sel.Name == "Stdout" || s.Sel.Name == "Stderr") {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "os" {
					t.Errorf("%s: os.%s: use stdout or stderr", f.fset.Position(n.Pos()), s.Sel.Name)
				}
			}
			return true
		})
	}
}
