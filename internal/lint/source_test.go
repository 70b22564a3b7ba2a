package lint

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A source is a Go file of the repository.
type source struct {
	*ast.File
	fset      *token.FileSet
	path      string // from the root of the repository, as dir and name
	dir, name string
	lines     int
	test      bool
}

// sources returns the Go files of the repository outside testdata. All tests share them, and change nothing.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var parsed = sync.OnceValues(parseAll)

func parseAll() (all []source, err error) {
	root := filepath.Join("..", "..")
	fset := token.NewFileSet()
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "vendor" || p != root && strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(p, ".go") {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		f, err := parser.ParseFile(fset, rel, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, source{
			File: f, fset: fset, path: rel, dir: path.Dir(rel), name: d.Name(),
			lines: bytes.Count(text, []byte("\n")), test: strings.HasSuffix(rel, "_test.go"),
		})
		return nil
	})
	return all, err
}
