package typecheck

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"golang.org/x/tools/txtar"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/compiled"
)

var update = flag.Bool("update", false, "rewrite the want section of each file")

// words is the compiler version whose messages the files contain. With another version a
// program must still be refused, but the messages may differ.
const words = "go1.26"

func TestMessages(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("only %d programs", len(files))
	}
	imp := exports(t, module+"dataflow/connect")
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(a.Files) != 2 || a.Files[0].Name != "prog.go" || a.Files[1].Name != "want" {
				t.Fatal("want the sections prog.go and want")
			}
			if len(a.Comment) == 0 {
				t.Error("the first lines do not say why the program is wrong")
			}
			got := check(t, imp, a.Files[0].Data)
			if got == "" {
				t.Fatal("the program compiles")
			}
			if got == string(a.Files[1].Data) || !strings.HasPrefix(runtime.Version(), words) {
				return
			}
			if *update {
				a.Files[1].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("messages differ (run with -update to accept)\ngot:\n%s\nwant:\n%s", got, a.Files[1].Data)
		})
	}
}

// TestRightProgram checks that a correct program compiles, so that the others are refused
// for what is wrong in them.
func TestRightProgram(t *testing.T) {
	prog, err := os.ReadFile("testdata/right.go")
	if err != nil {
		t.Fatal(err)
	}
	if got := check(t, exports(t), prog); got != "" {
		t.Error(got)
	}
}

// check returns the type errors of a program, one on each line.
func check(t *testing.T, imp types.Importer, prog []byte) string {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "prog.go", prog, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	conf := types.Config{
		Importer: imp,
		Error:    func(err error) { fmt.Fprintln(&out, err) },
	}
	conf.Check("p", fset, []*ast.File{f}, nil)
	return out.String()
}

// exports returns an importer for the packages of this module that programs of live
// collections use, for others, and for all that they import. The go command compiles them.
func exports(t *testing.T, others ...string) types.Importer {
	t.Helper()
	return compiled.Importer(t, append([]string{
		module + "dataflow/window", module + "keyedsingleton", module + "keyedstream", module + "optional", module + "singleton", module + "slice", "context", "strings", "time",
	}, others...)...)
}
