package typecheck

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/format"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestOutside builds another module with programs that try to circumvent the types in ways
// that compile. Each must fail while the flow is built, with a message of the library.
func TestOutside(t *testing.T) {
	dir := outside(t)
	zeros, names := zeroCalls(t)
	write(t, filepath.Join(dir, "zeros.go"), zeros)
	out, err := goIn(dir, "run", ".")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var outcome map[string]string
	if err := json.Unmarshal(out, &outcome); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := map[string]string{
		"a reason that was inferred":             "dataflow: AssumeOrder: what depends on timing needs a reason",
		"a reason of blanks":                     "dataflow: AssumeOrder: what depends on timing needs a reason",
		"a proof that was inferred":              "dataflow: FoldCommutative: what the compiler cannot see needs a proof",
		"conversion by reflection":               "cannot be converted",
		"assignment by reflection":               "is not assignable",
		"a field by reflection":                  "using unexported field",
		"a field by name by reflection":          "using unexported field",
		"the node by reflection":                 "unexported field",
		"methods by reflection":                  "0 methods",
		"a method of the node by reflection":     "using value obtained using unexported field",
		"a collection from JSON":                 "dataflow: Map: the collection is a zero value",
		"a location converted":                   "dataflow: Of: the location is a main.Cloud that was made as a main.Server",
		"a location taken over":                  "dataflow: Input: the location is a main.Cloud that was made as a main.Server",
		"a location converted, sent to":          "dataflow: Send: the location is a main.Cloud that was made as a main.Server",
		"a location converted, cut":              "slice: At: the location is a main.Cloud that was made as a main.Server",
		"a location behind a pointer":            "dataflow: Of: the location is a *main.Server",
		"no location behind a pointer":           "dataflow: Of: the location is a *main.Server",
		"a location behind an interface":         "dataflow: Of: the location is a dataflow.Location",
		"no location behind an interface":        "dataflow: Of: the location is a dataflow.Location",
		"an interface embedded":                  "dataflow: Of: the location is a main.borrowed",
		"a pointer embedded":                     "dataflow: At: main.pointer embeds a pointer to a location",
		"a nil pointer embedded":                 "dataflow: Of: the location is a main.pointer",
		"a slice embedded":                       "dataflow: Of: the location is a main.inside that was made as a dataflow.Tick[main.Server]",
		"a zero location":                        "dataflow: Of: the location is a zero value",
		"a zero cluster":                         "keyedstream: Input: the location is a zero value",
		"a zero slice":                           "slice: State: the location is a zero value",
		"a location of another flow, sent to":    "dataflow: Send: Server and Cloud are locations of different flows",
		"a location of another flow, taken over": "dataflow: Merge: the collections live at different locations",
		"a cycle of nothing":                     "dataflow: Cycle.Complete again: the collection is a zero value",
		"a state of nothing":                     "slice: State: the collection is a zero value",
		"entries of nothing":                     "slice: StateEntries: the collection is a zero value",
		"a second collection of nothing":         "dataflow: Merge: the collection is a zero value",
	}
	for _, name := range names {
		want[name] = strings.Replace(name, ".", ": ", 1)
	}
	for name, words := range want {
		got, ok := outcome[name]
		if !ok || !strings.Contains(got, words) {
			t.Errorf("%s: got %q, want %q", name, got, words)
		}
		if slices.Contains(names, name) && !strings.Contains(got, "the collection is a zero value") {
			t.Errorf("%s of a zero collection: got %q", name, got)
		}
	}
	for name := range outcome {
		if _, ok := want[name]; !ok {
			t.Errorf("nobody says what comes of %q", name)
		}
	}
}

// TestOutsideImport checks that another module cannot import package seal.
func TestOutsideImport(t *testing.T) {
	out, err := goIn(outside(t), "build", "./forge")
	if err == nil || !bytes.Contains(out, []byte("use of internal package github.com/millrace/millrace/internal/seal not allowed")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// outside returns the folder of another module. Building it needs no network.
func outside(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "outside"))); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimSuffix(module, "/")
	text = bytes.Replace(text, []byte("module "+path+"\n"), []byte("module example.com/outside\n"), 1)
	text = fmt.Appendf(text, "\nrequire %s v0.0.0\n\nreplace %s => %s\n", path, path, root)
	write(t, filepath.Join(dir, "go.mod"), text)
	if text, err = os.ReadFile(filepath.Join(root, "go.sum")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "go.sum"), text)
	return dir
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// goIn runs the go command in a folder. It uses the caller's GOFLAGS, so that packages compiled
// with them are not compiled again.
func goIn(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "GOPROXY=off", "GOWORK=off")
	return cmd.CombinedOutput()
}

// zeroCalls returns a file with a call of every exported function that takes a
// collection, with zero values, and the names of the functions.
func zeroCalls(t *testing.T) ([]byte, []string) {
	t.Helper()
	imp := exports(t)
	var body strings.Builder
	var names []string
	packages := []string{"bounds", "dataflow", "keyedsingleton", "keyedstream", "optional", "singleton", "slice"}
	loaded := make(map[string]*types.Package)
	for _, p := range packages {
		pkg, err := imp.Import(module + p)
		if err != nil {
			t.Fatal(err)
		}
		loaded[p] = pkg
	}
	short := func(p *types.Package) string { return p.Name() }
	for _, p := range packages {
		scope := loaded[p].Scope()
		for _, name := range scope.Names() {
			fn, ok := scope.Lookup(name).(*types.Func)
			if !ok || !fn.Exported() || !takesCollection(fn.Signature()) {
				continue
			}
			args := typeArgs(loaded, fn.Signature())
			if args == nil {
				t.Errorf("%s.%s: no type arguments are found that fit", p, name)
				continue
			}
			var list, zeros []string
			for _, a := range args {
				list = append(list, types.TypeString(a, short))
			}
			inst, err := types.Instantiate(nil, fn.Signature(), args, true)
			if err != nil {
				t.Fatal(err)
			}
			sig := inst.(*types.Signature)
			for i := range sig.Params().Len() {
				if sig.Variadic() && i == sig.Params().Len()-1 {
					continue
				}
				zeros = append(zeros, "*new("+types.TypeString(sig.Params().At(i).Type(), short)+")")
			}
			names = append(names, p+"."+name)
			fmt.Fprintf(&body, "\t%q: func() { %s.%s[%s](%s) },\n", p+"."+name, p, name, strings.Join(list, ", "), strings.Join(zeros, ", "))
		}
	}
	if len(names) < 100 {
		t.Errorf("only %d functions take a collection", len(names))
	}
	var imports strings.Builder
	for path, used := range map[string]string{"context": `context\.`, "time": `time\.`} {
		if regexp.MustCompile(`\b` + used).MatchString(body.String()) {
			fmt.Fprintf(&imports, "\t%q\n", path)
		}
	}
	for _, p := range packages {
		fmt.Fprintf(&imports, "\t%q\n", module+p)
	}
	text, err := format.Source([]byte("package main\n\nimport (\n" + imports.String() + ")\n\nvar zeros = map[string]func(){\n" +
		strings.NewReplacer("dataflow.here", "Server").Replace(body.String()) + "}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return text, names
}

// takesCollection reports whether a function has a collection among its parameters.
func takesCollection(sig *types.Signature) bool {
	for p := range sig.Params().Variables() {
		t := p.Type()
		if tp, ok := t.(*types.TypeParam); ok {
			t = tp.Constraint()
		}
		if n, ok := t.(*types.Named); ok && slices.Contains(
			[]string{"Stream", "KeyedStream", "KeyedSingleton", "Singleton", "Optional", "Versioned"}, n.Obj().Name()) {
			return true
		}
	}
	return false
}

// typeArgs returns type arguments that satisfy the constraints of a function, or nil.
func typeArgs(packages map[string]*types.Package, sig *types.Signature) []types.Type {
	named := func(p string, names ...string) (all []types.Type) {
		for _, n := range names {
			all = append(all, packages[p].Scope().Lookup(n).Type())
		}
		return all
	}
	at := named("dataflow", "Here")
	var candidates [][]types.Type
	for p := range sig.TypeParams().TypeParams() {
		fit := []types.Type{types.Typ[types.Int]}
		if c, ok := p.Constraint().(*types.Named); ok && c.Obj().Pkg() != nil {
			switch in, name := c.Obj().Pkg().Name(), c.Obj().Name(); {
			case in == "bounds":
				fit = named("bounds", "Bounded", "BoundedValue", "MonotonicValue", "MonotonicKeys", "Unbounded")
			case in != "dataflow":
			case name == "Order" || name == "Ordered":
				fit = named("dataflow", "TotalOrder")
			case name == "Retries" || name == "NoRetries":
				fit = named("dataflow", "ExactlyOnce")
			case name == "Location":
				fit = at
			case name == "Versioned":
				value := named("dataflow", "Singleton")[0]
				inst, err := types.Instantiate(nil, value, []types.Type{types.Typ[types.Int], at[0], named("bounds", "Bounded")[0]}, true)
				if err != nil {
					return nil
				}
				fit = []types.Type{inst}
			}
		}
		candidates = append(candidates, fit)
	}
	args := make([]types.Type, len(candidates))
	var search func(i int) bool
	search = func(i int) bool {
		if i == len(args) {
			_, err := types.Instantiate(nil, sig, args, true)
			return err == nil
		}
		for _, c := range candidates[i] {
			if args[i] = c; search(i + 1) {
				return true
			}
		}
		return false
	}
	if !search(0) {
		return nil
	}
	return args
}
