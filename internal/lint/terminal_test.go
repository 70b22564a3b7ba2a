package lint

import (
	"go/ast"
	"slices"
	"testing"
)

// raw lists the files of the command that write to a terminal directly: one makes the writers
// that others use, and the others move the cursor or use colors themselves.
var raw = []string{"output.go", "demo.go", "run.go"}

// TestTerminal checks that the output of the command goes through package plain: most of it
// contains text from a tool, a tool server or a model.
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
