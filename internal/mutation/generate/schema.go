package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// All mutants of a run are compiled into the packages at once, since building the tests takes far longer
// than running them. A function with mutants begins with a copy of its body for each of them. A copy
// runs if the environment names its mutant. Otherwise the original runs, and records which places of
// mutants it reaches.
//
// The copies are inside the function and not beside it, so that its callers see the same stack frames.
// For the compiler, each copy has a file name of its own, so that an error message identifies the
// mutant.

// support is added to each package with mutants. Its parameters are the name of the package, and one
// more than the largest number. Reaching a place a second time allocates nothing, since some tests check
// allocations.
const support = `package %s

import (
	mutantOS "os"
	mutantNumbers "strconv"
	mutantAtomic "sync/atomic"
)

var mutantNow, _ = mutantNumbers.Atoi(mutantOS.Getenv("MILLRACE_MUTANT"))

var mutantTrace = mutantOS.Getenv("MILLRACE_MUTANT_TRACE")

var mutantSeen [%d]mutantAtomic.Bool

func mutantHere(n int) {
	if mutantTrace != "" {
		mutantReached(n)
	}
}

func mutantReached(n int) {
	if mutantSeen[n].Load() || mutantSeen[n].Swap(true) {
		return
	}
	f, err := mutantOS.OpenFile(mutantTrace, mutantOS.O_APPEND|mutantOS.O_CREATE|mutantOS.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	if _, err := f.WriteString(mutantNumbers.Itoa(n) + "\n"); err != nil {
		panic(err)
	}
	if err := f.Close(); err != nil {
		panic(err)
	}
}
`

// copyName returns the file name of a copy for the compiler.
func copyName(n int) string { return fmt.Sprintf("mutant%d.go", n) }

// An edit inserts a text at an offset.
type edit struct {
	at   int
	text string
}

// withAll returns a source with all mutants of a file, each with its number. The path is absolute.
// Mutants that cannot be parsed are left out, and returned as broken.
func withAll(path string, src []byte, of map[int]mutant) (changed []byte, broken []int, err error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, path, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	at := func(p token.Pos) int { return fset.Position(p).Offset }
	var edits []edit
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		var head strings.Builder
		for n, m := range inOrder(of) {
			if m.from < at(f.Body.Lbrace) || m.to > at(f.Body.Rbrace) {
				continue // it is in another function
			}
			body, ok := copyOf(src, m, at(f.Pos()), n)
			if !ok {
				broken = append(broken, n)
				continue
			}
			end := "panic(\"the end of a function with results\")"
			if f.Type.Results == nil {
				end = "return"
			}
			fmt.Fprintf(&head, "\n//line %s:1\nif mutantNow == %d {%s\n%s\n}", filepath.Join(filepath.Dir(path), copyName(n)), n, body, end)
			edits = append(edits, edit{at(place(f.Body, m, at)), fmt.Sprintf("mutantHere(%d); ", n)})
		}
		if head.Len() > 0 {
			fmt.Fprintf(&head, "\n//line %s:%d\n", path, fset.Position(f.Body.Lbrace).Line)
			edits = append(edits, edit{at(f.Body.Lbrace) + 1, head.String()})
		}
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return a.at - b.at })
	return insert(src, edits), broken, nil
}

// insert inserts texts, in the order of their offsets.
func insert(src []byte, edits []edit) []byte {
	var out []byte
	done := 0
	for _, e := range edits {
		out = append(append(out, src[done:e.at]...), e.text...)
		done = e.at
	}
	return append(out, src[done:]...)
}

// inOrder yields mutants in the order of their numbers.
func inOrder(of map[int]mutant) func(yield func(int, mutant) bool) {
	return func(yield func(int, mutant) bool) {
		var numbers []int
		for n := range of {
			numbers = append(numbers, n)
		}
		slices.Sort(numbers)
		for _, n := range numbers {
			if !yield(n, of[n]) {
				return
			}
		}
	}
}

// copyOf returns the body of the function that begins at an offset, with a mutant and without its
// braces. It renames the labels, which must be unique in a function.
func copyOf(src []byte, m mutant, begins, n int) (body string, ok bool) {
	text := m.apply(src)
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, m.file, text, parser.SkipObjectResolution)
	if err != nil {
		return "", false
	}
	at := func(p token.Pos) int { return fset.Position(p).Offset }
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || at(f.Pos()) != begins {
			continue
		}
		from := at(f.Body.Lbrace) + 1
		var edits []edit
		ast.Inspect(f.Body, func(x ast.Node) bool {
			var label *ast.Ident
			switch x := x.(type) {
			case *ast.LabeledStmt:
				label = x.Label
			case *ast.BranchStmt:
				label = x.Label
			}
			if label != nil {
				edits = append(edits, edit{at(label.End()) - from, fmt.Sprint("Mutant", n)})
			}
			return true
		})
		return string(insert(text[from:at(f.Body.Rbrace)], edits)), true
	}
	return "", false
}

// place returns the statement before which the function records that a mutant's place is reached: the
// innermost statement in a list that contains it.
func place(body *ast.BlockStmt, m mutant, at func(token.Pos) int) token.Pos {
	found := body.List[0].Pos()
	ast.Inspect(body, func(x ast.Node) bool {
		var list []ast.Stmt
		switch x := x.(type) {
		case *ast.BlockStmt:
			list = x.List
		case *ast.CaseClause:
			list = x.Body
		case *ast.CommClause:
			list = x.Body
		}
		for _, s := range list {
			switch s.(type) {
			case *ast.CaseClause, *ast.CommClause: // no statement can come before them
				continue
			}
			if at(s.Pos()) <= m.from && m.from < at(s.End()) {
				found = s.Pos()
			}
		}
		return true
	})
	return found
}
