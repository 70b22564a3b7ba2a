package serve_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"runtime"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/compiled"
)

// TestCompiles checks the compiler's message for responses that may still change: a sent response cannot be taken back.
func TestCompiles(t *testing.T) {
	const program = `package p

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/serve"
)

type Server struct{ dataflow.Process }

type Responses[B bounds.KeyedSingleton] = dataflow.KeyedSingleton[serve.RequestID, serve.Response, Server, B]

func f(router *serve.Router[Server], route *serve.Route[Server], fixed Responses[bounds.BoundedValue]) {
	router.Respond(fixed)
	route.Respond(fixed)
}
`
	const message = "cannot use responses (variable of struct type dataflow.KeyedSingleton[serve.RequestID, serve.Response, Server, %s]) as dataflow.KeyedSingleton[serve.RequestID, serve.Response, Server, bounds.BoundedValue] value in argument to router.Respond"
	imp := compiled.Importer(t, ".")
	if got := check(t, imp, program); got != "" {
		t.Errorf("the right program: %s", got)
	}
	for _, bound := range []string{"bounds.Unbounded", "bounds.MonotonicKeys", "bounds.MonotonicValue"} {
		got := check(t, imp, program+fmt.Sprintf("\nfunc g(router *serve.Router[Server], responses dataflow.KeyedSingleton[serve.RequestID, serve.Response, Server, %s]) {\n\trouter.Respond(responses)\n}\n", bound))
		want := fmt.Sprintf(message, bound)
		if got == "" || strings.HasPrefix(runtime.Version(), "go1.26") && !strings.Contains(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", bound, got, want)
		}
	}
}

// check returns the type errors of a program.
func check(t *testing.T, imp types.Importer, program string) string {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "prog.go", program, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	conf := types.Config{Importer: imp, Error: func(err error) { fmt.Fprintln(&out, err) }}
	conf.Check("p", fset, []*ast.File{f}, nil)
	return out.String()
}
