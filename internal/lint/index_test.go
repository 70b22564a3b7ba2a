package lint

import (
	"go/ast"
	"go/token"
	"path"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// An index contains the declarations in the Go files of the repository.
type index struct {
	files    []source
	packages map[string]*pkg   // by directory
	named    map[string][]*pkg // by name
	tests    map[string]bool   // functions of test files
	words    map[string]bool   // every identifier that is declared anywhere
	exported map[string]bool   // the exported ones, including members
	literals map[string]bool   // words in strings and tags
}

// A pkg is one package, with its test files.
type pkg struct {
	dir, name string
	public    bool
	names     map[string]bool            // at the top level
	members   map[string]map[string]bool // fields and methods of types
	under     map[string][]string        // what a type embeds or is made of: "Type" or "pkg.Type"
	imports   map[string]bool            // directories of this module
	flags     map[string]bool            // of the flag package
	tests     []string                   // test functions
	main      bool
}

func newIndex(t *testing.T) *index {
	x := &index{
		files: sources(t), packages: map[string]*pkg{}, named: map[string][]*pkg{}, tests: map[string]bool{},
		words: map[string]bool{}, exported: map[string]bool{}, literals: map[string]bool{},
	}
	for _, f := range x.files {
		p := x.packages[f.dir]
		if p == nil {
			p = &pkg{
				dir: f.dir, name: strings.TrimSuffix(f.Name.Name, "_test"), names: map[string]bool{}, members: map[string]map[string]bool{},
				under: map[string][]string{}, imports: map[string]bool{}, flags: map[string]bool{},
			}
			p.public = !strings.Contains("/"+f.dir+"/", "/internal/") && p.name != "main"
			p.main = p.name == "main"
			x.packages[f.dir] = p
			x.named[p.name] = append(x.named[p.name], p)
		}
		x.add(p, f)
	}
	return x
}

// add adds the declarations of a file.
func (x *index) add(p *pkg, f source) {
	for _, spec := range f.Imports {
		if dir, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module); ok {
			p.imports[dir] = true
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				x.member(p, receiver(d).Name, d.Name.Name)
				continue
			}
			p.names[d.Name.Name] = true
			if f.test {
				x.tests[d.Name.Name] = true
				p.tests = append(p.tests, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					p.names[s.Name.Name] = true
					x.shape(p, s.Name.Name, s.Type)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						p.names[n.Name] = true
					}
				}
			}
		}
	}
	for n := range p.names {
		x.word(n)
	}
	ast.Inspect(f.File, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if n.Kind == token.STRING && f.dir != "internal/lint" { // internal/lint has examples of missing names
				x.literal(n.Value)
			}
		case *ast.Ident:
			x.words[n.Name] = true
		case *ast.CallExpr:
			if name := flagOf(n); name != "" {
				p.flags[name] = true
			}
		}
		return true
	})
}

func (x *index) word(name string) {
	x.words[name] = true
	if ast.IsExported(name) {
		x.exported[name] = true
	}
}

func (x *index) member(p *pkg, typ, name string) {
	if p.members[typ] == nil {
		p.members[typ] = map[string]bool{}
	}
	p.members[typ][name] = true
	x.word(name)
}

func (x *index) literal(quoted string) {
	s, err := strconv.Unquote(quoted)
	if err != nil {
		return
	}
	for _, w := range strings.FieldsFunc(s, func(r rune) bool {
		return r != '_' && r != '-' && r != '.' && !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9')
	}) {
		x.literals[w] = true
	}
}

// shape adds the members of a type and the types that it takes members from.
func (x *index) shape(p *pkg, name string, typ ast.Expr) {
	from := func(e ast.Expr) {
		if n := nameOf(e); n != "" {
			p.under[name] = append(p.under[name], n)
		}
	}
	var list *ast.FieldList
	switch t := typ.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		from(typ)
		return
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			x.member(p, name, n.Name)
		}
		if f.Tag != nil {
			if tag, err := strconv.Unquote(f.Tag.Value); err == nil {
				for _, key := range []string{"json", "cbor"} {
					n, _, _ := strings.Cut(reflect.StructTag(tag).Get(key), ",")
					x.literals[n] = true
				}
			}
		}
		if len(f.Names) == 0 {
			from(f.Type)
			if n := nameOf(f.Type); n != "" {
				x.member(p, name, path.Ext("." + n)[1:])
			}
		}
	}
}

// nameOf returns the name of a type as "Type" or "pkg.Type".
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return nameOf(e.X)
	case *ast.IndexExpr:
		return nameOf(e.X)
	case *ast.IndexListExpr:
		return nameOf(e.X)
	case *ast.SelectorExpr:
		if q, ok := e.X.(*ast.Ident); ok {
			return q.Name + "." + e.Sel.Name
		}
	}
	return ""
}

// flagOf returns the name of the flag that a call defines, or "".
func flagOf(call *ast.CallExpr) string {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	at := 0
	switch s.Sel.Name {
	case "BoolVar", "StringVar", "IntVar", "Int64Var", "UintVar", "Uint64Var", "Float64Var", "DurationVar", "Var", "TextVar":
		at = 1
	case "Bool", "String", "Int", "Int64", "Uint", "Uint64", "Float64", "Duration", "Func", "BoolFunc":
	default:
		return ""
	}
	if len(call.Args) < at+2 {
		return ""
	}
	lit, ok := call.Args[at].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	name, err := strconv.Unquote(lit.Value)
	if err != nil || name == "" || strings.ContainsAny(name, " :/%") {
		return ""
	}
	return name
}

// has reports whether a package declares a name and, if member is not empty, whether the name has
// that member.
func (x *index) has(p *pkg, name, member string) bool {
	if member == "" {
		return p.names[name]
	}
	return p.names[name] && x.hasMember(p, name, member, 0)
}

func (x *index) hasMember(p *pkg, typ, member string, depth int) bool {
	if p.members[typ][member] {
		return true
	}
	if depth > 4 {
		return false
	}
	for _, from := range p.under[typ] {
		q, name, ok := strings.Cut(from, ".")
		if !ok {
			if x.hasMember(p, q, member, depth+1) {
				return true
			}
			continue
		}
		known := x.named[q]
		for _, other := range known {
			if x.hasMember(other, name, member, depth+1) {
				return true
			}
		}
		if len(known) == 0 {
			return true // the type is of another module
		}
	}
	return false
}

// qualified reports whether some package called q declares a name with that member, if any.
func (x *index) qualified(q, name, member string) bool {
	for _, p := range x.named[q] {
		if x.has(p, name, member) {
			return true
		}
	}
	return false
}

// reach returns the packages of the module that a package imports, directly or not, itself first.
func (x *index) reach(dir string) (all []*pkg) {
	seen := map[string]bool{}
	var visit func(dir string)
	visit = func(dir string) {
		p := x.packages[dir]
		if p == nil || seen[dir] {
			return
		}
		seen[dir] = true
		all = append(all, p)
		for d := range p.imports {
			visit(d)
		}
	}
	visit(dir)
	return all
}
