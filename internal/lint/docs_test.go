package lint

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// shown lists the packages whose every function has an example.
var shown = []string{"dataflow", "keyedstream", "keyedsingleton", "singleton", "optional", "slice", "dataflow/serve", "dataflow/window", "dataflow/connect", "dataflow/connect/file"}

// TestPackageDocs checks that each package has one package comment.
func TestPackageDocs(t *testing.T) {
	docs := make(map[string]int)
	names := make(map[string]string)
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		names[f.dir] = f.Name.Name
		if f.Doc == nil {
			continue
		}
		docs[f.dir]++
		want := "Package " + f.Name.Name + " "
		if f.Name.Name == "main" {
			want = "Command "
		}
		if !strings.HasPrefix(f.Doc.Text(), want) {
			t.Errorf("%s: the package comment does not start with %q", f.path, want)
		}
	}
	for dir, name := range names {
		if docs[dir] != 1 {
			t.Errorf("package %s in %s has %d package comments, want 1", name, dir, docs[dir])
		}
	}
}

// TestDocComments checks that every exported declaration has a comment that starts with its name,
// so that it reads well wherever it is shown.
func TestDocComments(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || f.Name.Name == "main" {
			continue
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && (d.Recv == nil || receiver(d).IsExported()) && !strings.HasPrefix(d.Doc.Text(), d.Name.Name+" ") && !well(d) {
					t.Errorf("%s: the comment on %s does not start with its name", f.path, d.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					s, ok := s.(*ast.TypeSpec)
					if !ok || !s.Name.IsExported() {
						continue
					}
					doc := s.Doc.Text()
					if doc == "" {
						doc = d.Doc.Text()
					}
					if !regexp.MustCompile(`^((A|An|The) )?` + s.Name.Name + `\b`).MatchString(doc) {
						t.Errorf("%s: the comment on %s does not start with its name", f.path, s.Name)
					}
				}
			}
		}
	}
}

// well reports whether a method needs no comment because an interface of the standard library
// defines its meaning.
func well(d *ast.FuncDecl) bool {
	return d.Recv != nil && d.Doc == nil &&
		slices.Contains([]string{"Error", "Unwrap", "String", "MarshalText", "UnmarshalText", "ServeHTTP", "RoundTrip", "Read", "Write", "Close"}, d.Name.Name)
}

func receiver(d *ast.FuncDecl) *ast.Ident {
	for x := d.Recv.List[0].Type; ; {
		switch y := x.(type) {
		case *ast.StarExpr:
			x = y.X
		case *ast.IndexExpr:
			x = y.X
		case *ast.IndexListExpr:
			x = y.X
		case *ast.Ident:
			return y
		default:
			return ast.NewIdent("unknown")
		}
	}
}

// TestExamples checks that every function of the packages in shown has an example with output.
func TestExamples(t *testing.T) {
	funcs := make(map[string]bool) // "dir.Name"
	given := make(map[string]bool)
	for _, f := range sources(t) {
		if !slices.Contains(shown, f.dir) {
			continue
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil {
				continue
			}
			name := fn.Name.Name
			switch {
			case f.test:
				if ex, ok := strings.CutPrefix(name, "Example"); ok {
					if !prints(f, fn) {
						t.Errorf("%s: %s has no output", f.path, name)
					}
					if !strings.HasSuffix(f.Name.Name, "_test") {
						t.Errorf("%s: %s is not in an external test package", f.path, name)
					}
					ex, _, _ = strings.Cut(ex, "_")
					given[f.dir+"."+ex] = true
				}
			case fn.Name.IsExported():
				funcs[f.dir+"."+name] = true
			}
		}
	}
	if len(funcs) == 0 {
		t.Fatal("found no functions")
	}
	for f := range funcs {
		if !given[f] {
			t.Errorf("%s has no example", f)
		}
	}
}

// prints reports whether an example has an output comment, so that go test runs it.
func prints(f source, fn *ast.FuncDecl) bool {
	for _, c := range f.Comments {
		if c.Pos() > fn.Body.Pos() && c.End() < fn.Body.End() && regexp.MustCompile(`(?i)^\s*(unordered )?output:`).MatchString(c.Text()) {
			return true
		}
	}
	return false
}
