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
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := s.X.(*ast.Ident)
			switch {
			case !ok:
			case x.Name == "os" && (s.Sel.Name == "Stdout" || s.Sel.Name == "Stderr"),
				x.Name == "fmt" && (s.Sel.Name == "Print" || s.Sel.Name == "Printf" || s.Sel.Name == "Println"):
				t.Errorf("%s: %s.%s: use stdout or stderr", f.fset.Position(n.Pos()), x.Name, s.Sel.Name)
			}
			return true
		})
	}
}
