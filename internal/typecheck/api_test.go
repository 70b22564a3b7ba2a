package typecheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/millrace/millrace/"

// TestExportedAPI checks that no exported identifier of a public package mentions a type of
// an internal package. Other modules cannot name such a type, so readers of the documentation
// cannot use it. Type inference could still infer it, and provide its zero value.
func TestExportedAPI(t *testing.T) {
	list := exec.Command("go", "list", "-f", "{{if and .GoFiles (ne .Name \"main\")}}{{.ImportPath}}{{end}}", module+"...")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var public []string
	for path := range strings.Lines(string(out)) {
		if path = strings.TrimSpace(path); path != "" && !inside(path) {
			public = append(public, path)
		}
	}
	if len(public) < 10 {
		t.Fatalf("only %d public packages", len(public))
	}
	imp := exports(t, public...)
	seen := 0
	for _, path := range public {
		pkg, err := imp.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, leak := range leaks(pkg) {
			t.Error(leak)
		}
		seen += len(pkg.Scope().Names())
	}
	if seen < 300 {
		t.Errorf("only %d identifiers", seen)
	}
}

// TestLeaks checks that leaks finds every kind of mention.
func TestLeaks(t *testing.T) {
	const prog = `package p

import "github.com/millrace/millrace/internal/engine"

func Param(op string, site *engine.Location)                {}
func Result() func() map[string][]engine.Batch[int, int] { return nil }
func Constraint[P interface{ *int; bind(*engine.Location) }](p P) {}
func Hidden[P hidden](p P)                              {}
func Unexported() *result                               { return nil }

type hidden interface{ Unseal() *engine.Graph }
type result struct{ Site *engine.Location }
type Field struct{ Site chan *engine.Location }
type embedded struct{ In *engine.Location }
type Promoted struct{ embedded }
type method struct{}
func (method) Out() *engine.Location { return nil }
type PromotedMethod struct{ method }
type Method int
func (*Method) Site(*engine.Location) {}
type Alias = engine.Location
type Interface interface{ Site() *engine.Location }

var Variable []*engine.Location

type Fine struct{ site *engine.Location }
func (Fine) graph() *engine.Graph { return nil }
func fine(*engine.Location) {}
type FineToo interface{ site() *engine.Location }
func FineAsWell[T FineToo](Fine, T) {}
`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", prog, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	conf := types.Config{Importer: exports(t)}
	pkg, err := conf.Check(module+"p", fset, []*ast.File{f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, leak := range leaks(pkg) {
		name, _, _ := strings.Cut(leak, " ")
		found[strings.TrimPrefix(name, module+"p.")] = true
	}
	for _, want := range []string{
		"Param", "Result", "Constraint", "Hidden", "Unexported", "Field", "Promoted", "PromotedMethod", "Method", "Alias", "Interface", "Variable",
	} {
		if !found[want] {
			t.Errorf("%s is not found", want)
		}
	}
	for name := range found {
		if strings.HasPrefix(strings.ToLower(name), "fine") {
			t.Errorf("%s is found, and is fine", name)
		}
	}
}

// inside reports whether a package is internal, so that other modules cannot import it.
func inside(path string) bool { return slices.Contains(strings.Split(path, "/"), "internal") }

// leaks returns a message for each mention of an internal type by an exported identifier.
func leaks(pkg *types.Package) []string {
	var all []string
	scope := pkg.Scope()
	for _, name := range scope.Names() {
		if obj := scope.Lookup(name); obj.Exported() {
			w := walker{from: pkg.Path() + "." + name, seen: make(map[types.Type]bool), found: &all}
			w.object(obj)
		}
	}
	return all
}

// A walker visits the types that are reachable from one exported identifier.
type walker struct {
	from  string
	seen  map[types.Type]bool
	found *[]string
}

func (w walker) object(obj types.Object) {
	if name, ok := obj.(*types.TypeName); ok && !name.IsAlias() {
		w.declared(name.Type().(*types.Named))
		return
	}
	w.walk(obj.Type())
}

// declared visits what a type declaration exposes: the constraints of its parameters, and
// the fields and methods that can be selected.
func (w walker) declared(t *types.Named) {
	if w.seen[t] {
		return
	}
	w.seen[t] = true
	w.params(t.TypeParams())
	if i, ok := t.Underlying().(*types.Interface); ok {
		for m := range i.Methods() {
			if m.Exported() {
				w.walk(m.Type())
			}
		}
		for e := range i.EmbeddedTypes() {
			w.walk(e)
		}
		return
	}
	w.fields(t.Underlying())
	for m := range types.NewMethodSet(types.NewPointer(t)).Methods() {
		if m.Obj().Exported() {
			w.walk(m.Type())
		}
	}
}

// fields visits exported fields, including promoted ones.
func (w walker) fields(t types.Type) {
	s, ok := t.(*types.Struct)
	if !ok {
		w.walk(t)
		return
	}
	for f := range s.Fields() {
		switch {
		case f.Exported():
			w.walk(f.Type())
		case f.Embedded():
			under := f.Type().Underlying()
			if p, ok := under.(*types.Pointer); ok {
				under = p.Elem().Underlying()
			}
			if _, ok := under.(*types.Struct); ok {
				w.fields(under)
			}
		}
	}
}

func (w walker) params(list *types.TypeParamList) {
	for p := range list.TypeParams() {
		w.walk(p.Constraint())
	}
}

func (w walker) tuple(list *types.Tuple) {
	for v := range list.Variables() {
		w.walk(v.Type())
	}
}

func (w walker) walk(t types.Type) {
	switch t := t.(type) {
	case *types.Alias:
		if inside(pathOf(t.Obj())) {
			w.leak(t)
		}
		w.walk(types.Unalias(t))
	case *types.Named:
		if inside(pathOf(t.Obj())) {
			w.leak(t)
			return
		}
		for a := range t.TypeArgs().Types() {
			w.walk(a)
		}
		if !t.Obj().Exported() && t.Obj().Pkg() != nil {
			w.declared(t.Origin())
		}
	case *types.Signature:
		w.params(t.TypeParams())
		w.tuple(t.Params())
		w.tuple(t.Results())
	case *types.Struct:
		w.fields(t)
	case *types.Interface: // a literal, which shows all its methods
		for m := range t.ExplicitMethods() {
			w.walk(m.Type())
		}
		for e := range t.EmbeddedTypes() {
			w.walk(e)
		}
	case *types.Union:
		for term := range t.Terms() {
			w.walk(term.Type())
		}
	case *types.Map:
		w.walk(t.Key())
		w.walk(t.Elem())
	case interface{ Elem() types.Type }:
		w.walk(t.Elem())
	}
}

func (w walker) leak(t types.Type) {
	*w.found = append(*w.found, fmt.Sprintf("%s mentions %s, which another module cannot name", w.from, t))
}

func pathOf(obj *types.TypeName) string {
	if obj.Pkg() == nil {
		return ""
	}
	return obj.Pkg().Path()
}
