package lint

import (
	"errors"
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFiles checks that files are short and named for their subject.
func TestFiles(t *testing.T) {
	drawer := regexp.MustCompile(`^(utils?|helpers?|types|misc|common)(_test)?\.go$`)
	for _, f := range sources(t) {
		if drawer.MatchString(f.name) {
			t.Errorf("%s: the name says nothing about the subject", f.path)
		}
		if f.lines > 400 {
			t.Errorf("%s has %d lines, more than 400", f.path, f.lines)
		}
	}
}

// TestComments checks that comments contain no promises: an open task is done, or listed in
// doc/rough-edges.md.
func TestComments(t *testing.T) {
	promise := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	for _, f := range sources(t) {
		for _, c := range f.Comments {
			if w := promise.FindString(c.Text()); w != "" {
				t.Errorf("%s: %s in a comment", f.fset.Position(c.Pos()), w)
			}
		}
	}
}

// unclear matches phrases that need a second reading. See CONTRIBUTING.md for how comments are written.
var unclear = regexp.MustCompile(`\bany more\b|\bsees to it\b|\bof which it (is|cannot)\b|(^|[.:;] )Who [a-z]+s\b|\bfor who [a-z]+s\b|\bhow manieth\b|\bstudy [0-9]`)

// TestPlainComments checks that comments of shipped code avoid unclear phrases, and cite no source that
// a reader does not have.
func TestPlainComments(t *testing.T) {
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		for _, c := range f.Comments {
			if w := unclear.FindString(strings.Join(strings.Fields(c.Text()), " ")); w != "" {
				t.Errorf("%s: a comment says %q", f.fset.Position(c.Pos()), w)
			}
		}
	}
}

// TestPlainCommentsFound checks that [TestPlainComments] finds such phrases, and nothing else.
func TestPlainCommentsFound(t *testing.T) {
	for _, said := range []string{
		"It is not kept any more.", "The caller sees to it.", "Servers of which it cannot be found out.", "First this. Who waits is told.",
		"It is for who has the key.", "The how manieth it is.", "Source: store study 4.4.",
	} {
		if !unclear.MatchString(said) {
			t.Errorf("%q is not found", said)
		}
	}
	for _, said := range []string{"There are many more.", "A caller that waits.", "Who can read it: the owner.", "A case study of one."} {
		if w := unclear.FindString(said); w != "" {
			t.Errorf("%q in %q is found", w, said)
		}
	}
}

// TestSleep forbids waiting by the clock. In a bubble of testing/synctest a sleep takes no time and is
// exact, so a test file that uses one may sleep.
func TestSleep(t *testing.T) {
	for _, f := range sources(t) {
		bubble := slices.ContainsFunc(f.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == `"testing/synctest"` })
		if f.test && bubble {
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
					t.Errorf("%s: time.Sleep", f.fset.Position(n.Pos()))
				}
			}
			return true
		})
	}
}

// TestInit checks that nothing happens before main.
func TestInit(t *testing.T) {
	for _, f := range sources(t) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: func init", f.fset.Position(d.Pos()))
			}
		}
	}
}

// TestVariables checks that package variables are never written: shared state lives in values that are
// passed around.
func TestVariables(t *testing.T) {
	packages := make(map[string][]source)
	for _, f := range sources(t) {
		if !f.test {
			packages[f.dir] = append(packages[f.dir], f)
		}
	}
	for dir, files := range packages {
		info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
		// Without its imports a package has many errors, but its own names are resolved.
		conf := types.Config{Error: func(error) {}, Importer: nothing{}}
		var parsed []*ast.File
		for _, f := range files {
			parsed = append(parsed, f.File)
		}
		pkg, _ := conf.Check(dir, files[0].fset, parsed, info)
		shared := func(x ast.Expr) bool {
			for {
				switch y := x.(type) {
				case *ast.IndexExpr:
					x = y.X
				case *ast.SelectorExpr:
					x = y.X
				case *ast.ParenExpr:
					x = y.X
				case *ast.Ident:
					v, ok := info.Uses[y].(*types.Var)
					return ok && v.Parent() == pkg.Scope()
				default:
					return false
				}
			}
		}
		for _, f := range files {
			ast.Inspect(f.File, func(n ast.Node) bool {
				var written []ast.Expr
				switch n := n.(type) {
				case *ast.AssignStmt:
					written = n.Lhs
				case *ast.IncDecStmt:
					written = []ast.Expr{n.X}
				case *ast.CallExpr:
					if fn, ok := n.Fun.(*ast.Ident); ok && (fn.Name == "delete" || fn.Name == "clear") && len(n.Args) > 0 {
						written = n.Args[:1]
					}
				}
				if slices.ContainsFunc(written, shared) {
					t.Errorf("%s: a package variable is written", f.fset.Position(n.Pos()))
				}
				return true
			})
		}
	}
}

// nothing is an importer without packages.
type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) {
	return nil, errors.New("not imported: " + strings.Clone(path))
}
