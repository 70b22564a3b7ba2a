package lint

import (
	"go/ast"
	"regexp"
	"slices"
	"testing"
)

// noOperators lists functions of package dataflow that do not make a collection from another one.
var noOperators = []string{
	"New", "NewWithOptions", "Start", "Run", "Local", "Named", "Sequenced", "StateOf", "StatesOf", "EachState",
}

// TestHydro checks that doc/hydro.md names each operator: otherwise a reader would take it for missing.
func TestHydro(t *testing.T) {
	named := map[string]bool{}
	for _, m := range spans.FindAllStringSubmatch(documents(t)["doc/hydro.md"], -1) {
		for _, name := range regexp.MustCompile(`\b[A-Z]\w*`).FindAllString(m[1], -1) {
			named[name] = true
		}
	}
	operators := 0
	for _, f := range sources(t) {
		if f.test || !slices.Contains(library, f.dir) || f.dir == "bounds" {
			continue
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !fn.Name.IsExported() || f.dir == "dataflow" && slices.Contains(noOperators, fn.Name.Name) {
				continue
			}
			operators++
			if !named[fn.Name.Name] {
				t.Errorf("doc/hydro.md does not name %s.%s", f.dir, fn.Name.Name)
			}
		}
	}
	if operators < 150 {
		t.Errorf("only %d operators were found", operators)
	}
}
