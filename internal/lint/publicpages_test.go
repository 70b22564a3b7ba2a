package lint

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sealed lists the types that are declared with an unexported type to hide their fields from others.
// Those of dataflow are declared from an alias of a struct of package seal: another module cannot
// spell its fields, so only the functions of this module open a collection. See decision 0027. Those
// of conversation have fields that only a stored history needs.
var sealed = map[string][]string{
	"agentproto/conversation": {"Input", "State"},
	"dataflow": {
		"Cluster", "EntryInputPort", "EntryOutputPort", "InputPort", "KeyedInputPort", "KeyedSingleton", "KeyedStream", "Optional",
		"OptionalOutputPort", "OutputPort", "Process", "Recorder", "Recording", "Sequence", "SharedInputPort", "SharedKeyedInputPort",
		"Singleton", "SingletonOutputPort", "Stream", "Tick", "View",
	},
}

// public reports whether a folder holds a package that other modules import.
func public(dir string) bool {
	parts := strings.Split(dir, "/")
	return dir != "." && !slices.Contains(parts, "internal") && !slices.Contains([]string{"examples", "cmd", "bench"}, parts[0])
}

// publicPackages returns the files of each public package, including its tests.
func publicPackages(t *testing.T) map[string][]source {
	t.Helper()
	all := make(map[string][]source)
	commands := make(map[string]bool)
	for _, f := range sources(t) {
		if public(f.dir) {
			all[f.dir] = append(all[f.dir], f)
			commands[f.dir] = commands[f.dir] || f.Name.Name == "main"
		}
	}
	for dir := range all {
		if commands[dir] || !slices.ContainsFunc(all[dir], func(f source) bool { return !f.test }) {
			delete(all, dir)
		}
	}
	return all
}

// TestPublicPages reads each public package as go doc prints it. A reader must be able to look up each
// type that a declaration names. Each constraint has a name, each first sentence stands alone, each
// link resolves, and each package has an example to start from.
func TestPublicPages(t *testing.T) {
	packages := publicPackages(t)
	if len(packages) < 30 {
		t.Fatalf("only %d public packages", len(packages))
	}
	for dir, files := range packages {
		page := pageOf(t, dir, files)
		for _, wrong := range page.wrong() {
			t.Errorf("%s: %s", dir, wrong)
		}
		if !slices.ContainsFunc(files, hasPackageExample) {
			t.Errorf("%s: there is no example of the package: an Example or Example_name in package %s_test", dir, page.Name)
		}
	}
	for dir, names := range sealed {
		if !slices.IsSorted(names) {
			t.Errorf("%s: the types are not in order", dir)
		}
	}
}

// hasPackageExample reports whether a file has an example of the whole package.
func hasPackageExample(f source) bool {
	if !f.test || !strings.HasSuffix(f.Name.Name, "_test") {
		return false
	}
	return slices.ContainsFunc(f.Decls, func(d ast.Decl) bool {
		fn, ok := d.(*ast.FuncDecl)
		return ok && regexp.MustCompile(`^Example(_[a-z]\w*)?$`).MatchString(fn.Name.Name)
	})
}

// A page is the documentation of a package.
type page struct {
	*doc.Package
	dir    string
	hidden map[string]bool // the package's unexported types
}

func pageOf(t *testing.T, dir string, files []source) page {
	t.Helper()
	p := page{dir: dir, hidden: make(map[string]bool)}
	var parsed []*ast.File
	for _, f := range files {
		if f.test {
			continue
		}
		parsed = append(parsed, f.File)
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				if s, ok := s.(*ast.TypeSpec); ok && !s.Name.IsExported() {
					p.hidden[s.Name.Name] = true
				}
			}
		}
	}
	var err error
	if p.Package, err = doc.NewFromFiles(files[0].fset, parsed, module+dir, doc.AllDecls|doc.PreserveAST); err != nil {
		t.Fatal(err)
	}
	return p
}

// wrong returns the mistakes in the page.
func (p page) wrong() (all []string) {
	report := func(name, format string, args ...any) {
		all = append(all, name+": "+fmt.Sprintf(format, args...))
	}
	sentence := func(name, text string) {
		for _, wrong := range p.sentence(text) {
			report(name, "%s", wrong)
		}
	}
	sentence("the package comment", p.Doc)
	funcs := slices.Clone(p.Funcs)
	values := slices.Concat(p.Consts, p.Vars)
	for _, typ := range p.Types {
		funcs = slices.Concat(funcs, typ.Funcs)
		values = slices.Concat(values, typ.Consts, typ.Vars)
		if !token.IsExported(typ.Name) {
			continue
		}
		funcs = slices.Concat(funcs, typ.Methods)
		sentence(typ.Name, typ.Doc)
		for _, s := range typ.Decl.Specs {
			for _, wrong := range p.typeSpec(s.(*ast.TypeSpec)) {
				report(typ.Name, "%s", wrong)
			}
		}
	}
	for _, fn := range funcs {
		if !token.IsExported(fn.Name) {
			continue
		}
		name := fn.Name
		if fn.Recv != "" {
			name = strings.TrimPrefix(fn.Recv, "*") + "." + name
		}
		sentence(name, fn.Doc)
		own := fn.Decl.Type.TypeParams
		signature := &ast.FuncType{Params: fn.Decl.Type.Params, Results: fn.Decl.Type.Results}
		for _, wrong := range slices.Concat(p.constraints(own), p.named(signature, own)) {
			report(name, "%s", wrong)
		}
	}
	for _, v := range values {
		for _, s := range v.Decl.Specs {
			s := s.(*ast.ValueSpec)
			if !slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
				continue
			}
			for _, wrong := range p.valueSpec(v, s) {
				report(s.Names[0].Name, "%s", wrong)
			}
		}
	}
	return all
}

var (
	whole = regexp.MustCompile(`\.\)?$`)
	// shownLink matches a link that is shown in brackets because it does not resolve. Other links are
	// shown without brackets.
	shownLink = regexp.MustCompile(`(?m)(?:^|[\s(])(\[\*?(?:\w+\.)?[A-Z]\w*(?:\.\w+)?\])(?:[^:]|$)`)
)

// sentence returns what is wrong with the text of a comment.
func (p page) sentence(text string) (all []string) {
	// Synopsis treats a text that begins with "Author" as an author's name.
	if first := p.Synopsis("The " + text); text != "" && !whole.MatchString(first) {
		all = append(all, fmt.Sprintf("the first sentence does not stand alone: %q", first))
	}
	for _, m := range shownLink.FindAllStringSubmatch(string(p.Text(text)), -1) {
		all = append(all, m[1]+" leads nowhere: the package is not imported, or it stands in a block of code")
	}
	return all
}

// valueSpec returns what is wrong with a constant or variable. One without its own comment needs a
// comment on its group.
func (p page) valueSpec(v *doc.Value, s *ast.ValueSpec) (all []string) {
	if s.Type != nil {
		all = p.named(s.Type, nil)
	}
	text := s.Doc.Text()
	if text == "" && !v.Decl.Lparen.IsValid() {
		text = v.Doc
	}
	if text == "" {
		if v.Doc == "" && s.Comment == nil {
			all = append(all, "there is no comment on it or on its group")
		}
		return all
	}
	if !slices.ContainsFunc(s.Names, func(n *ast.Ident) bool { return strings.HasPrefix(text, n.Name+" ") }) {
		all = append(all, "the comment does not start with the name")
	}
	return slices.Concat(all, p.sentence(text))
}

// typeSpec returns what is wrong with the declaration of a type as it is printed: without unexported
// fields and methods.
func (p page) typeSpec(s *ast.TypeSpec) []string {
	all := p.constraints(s.TypeParams)
	if slices.Contains(sealed[p.dir], s.Name.Name) {
		return all
	}
	switch t := s.Type.(type) {
	case *ast.StructType:
		for _, f := range t.Fields.List {
			switch {
			case slices.ContainsFunc(f.Names, (*ast.Ident).IsExported):
				all = append(all, p.named(f.Type, s.TypeParams)...)
			case f.Names == nil:
				// An embedded field with type arguments is printed, exported or not.
				if _, plain := embedded(f.Type).(*ast.Ident); !plain {
					all = append(all, p.named(f.Type, s.TypeParams)...)
				}
			}
		}
	case *ast.InterfaceType:
		for _, f := range t.Methods.List {
			if f.Names == nil || f.Names[0].IsExported() {
				all = append(all, p.named(f.Type, s.TypeParams)...)
			}
		}
	default:
		all = append(all, p.named(t, s.TypeParams)...)
	}
	return all
}

func embedded(x ast.Expr) ast.Expr {
	if s, ok := x.(*ast.StarExpr); ok {
		return s.X
	}
	return x
}

// constraints returns the constraints that have no name.
func (p page) constraints(list *ast.FieldList) (all []string) {
	if list == nil {
		return nil
	}
	for _, f := range list.List {
		switch x := f.Type.(type) {
		case *ast.InterfaceType:
			all = append(all, fmt.Sprintf("the constraint of %s is an interface without a name", f.Names[0]))
		case *ast.BinaryExpr:
			all = append(all, fmt.Sprintf("the constraint of %s is a union without a name", f.Names[0]))
		default:
			all = append(all, p.named(x, list)...)
		}
	}
	return all
}

// named returns the unexported types that an expression names. The type parameters own shadow others.
func (p page) named(x ast.Expr, own *ast.FieldList) (all []string) {
	hides := func(name string) bool {
		return own != nil && slices.ContainsFunc(own.List, func(f *ast.Field) bool {
			return slices.ContainsFunc(f.Names, func(n *ast.Ident) bool { return n.Name == name })
		})
	}
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field: // its names are not types
			all = append(all, p.named(n.Type, own)...)
			return false
		case *ast.SelectorExpr: // of another package
			return false
		case *ast.Ident:
			if p.hidden[n.Name] && !hides(n.Name) {
				all = append(all, n.Name+" is not exported")
			}
		}
		return true
	})
	return all
}
