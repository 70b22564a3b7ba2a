package lint

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/compiled"
)

// The state of an operator must come from a constructor of internal/engine/state, which registers
// how it is saved or when it is cleared; see the decision on operator state. The check below
// type-checks operators and looks for memory from anywhere else.

// The packages that the check concerns.
const (
	enginePackage    = module + "internal/engine"
	statePackage     = enginePackage + "/state"
	operatorsPackage = enginePackage + "/operators"
)

// A memoryRule lists exceptions, each with its reason.
type memoryRule struct {
	functions map[string]string // functions that may call what others may not
	fields    map[string]string // fields that may be written while a flow runs
}

var memoryRules = memoryRule{
	functions: map[string]string{
		"State engine.Lasting":        "carries a value from one run of a slice to the next",
		"State kept":                  "is set while a flow is built",
		"StateEntries engine.Lasting": "carries a content from one run of a slice to the next",
		"StateEntries kept":           "is set while a flow is built",
		"Interval engine.Lasting":     "is an input, which is in no slice",
		"KWithout engine.OfConstants": "outside of slices the keys are constants",
		"Product engine.OfConstants":  "as KWithout",
		"IndexOf n":                   "is set while a flow is built",
		"Each c":                      "is of one call",
	},
	fields: map[string]string{
		"Op.At":            "says which element of a batch is worked on, for errors",
		"Op.Key":           "is set while a flow is built",
		"Location.At":      "says which operator works, for errors",
		"Location.Mu":      "is a lock",
		"Location.Open":    "is set while a flow is built",
		"Location.Rearm":   "is reset by each step",
		"Region.News":      "is reset by each cut, and each step cuts what has news",
		"Region.Reasons":   "is set while a flow is built",
		"KeyedNode.Index":  "is set while a flow is built",
		"index.watches":    "is set while a flow is built",
		"current.key":      "says which entry is worked on, for errors",
		"scanBuffer.b":     "is scratch: whoever makes an index declares its buffer",
		"scanBuffer.c":     "as scanBuffer.b",
		"after.blames":     "is set for steps that are thrown away",
		"interval.blames":  "as after.blames",
		"current.at":       "is where Location.At is",
		"Consumer.Push":    "is set when a graph is compiled",
		"Consumer.MakeOne": "is set when a graph is compiled",
	},
}

// machineRules are for internal/engine/machines.
var machineRules = memoryRule{
	functions: map[string]string{},
	fields: map[string]string{
		"Op.Key":          "is set while a flow is built",
		"Location.At":     "says which operator works, for errors",
		"Location.Rearm":  "is reset by each step",
		"Caller.requests": "is emptied by each turn",
		"Turn.loc":        "is set while a flow is built",
		"Turn.phase":      "is set while a flow is built",
		"life.state":      "is part of an entry of a table",
		"life.timer":      "is part of an entry of a table",
		"life.decided":    "is part of an entry of a table",
		"called.state":    "is part of an entry of a table",
		"called.calls":    "is part of an entry of a table",
		"called.open":     "is part of an entry of a table",
	},
}

// windowRules are for internal/engine/windows.
var windowRules = memoryRule{
	functions: map[string]string{
		"newStamp engine.Lasting":    "is of event time, which is in no slice",
		"newNowStamp engine.Lasting": "is of event time, which is in no slice",
		"Idle engine.Lasting":        "is of event time, which is in no slice",
		"StampSplits engine.Lasting": "is of event time, which is in no slice",
		"next newest":                "is a variable, or part of an entry of a table",
	},
	fields: map[string]string{
		"Op.Key":            "is set while a flow is built",
		"Location.At":       "says which operator works, for errors",
		"Location.Rearm":    "is reset by each step",
		"KeyedNode.Revises": "is set while a flow is built",
		"KeyedNode.Forgets": "is set while a flow is built",
		"results.open":      "is set while a flow is built",
		"results.shows":     "is set when a graph is compiled",
		"machine.turn":      "is begun anew for each event and alarm",
		"panes.soon":        "is a bound, which is found again after a restart",
		"chain.first":       "is part of an entry of a table",
		"chain.last":        "is part of an entry of a table",
		"Life.Alarms":       "is part of an entry of a table",
		"Life.Decided":      "is part of an entry of a table",
		"Split.Left":        "is part of an entry of a table",
		"visits.first":      "is part of an entry of a table",
		"visits.more":       "is part of an entry of a table",
	},
}

// TestMemory checks that all memory of operators comes from a constructor.
func TestMemory(t *testing.T) {
	for _, x := range []struct {
		folder          string
		rules           memoryRule
		files, literals int // minimum numbers
	}{
		{"operators", memoryRules, 15, 100},
		{"machines", machineRules, 2, 5},
		{"windows", windowRules, 10, 40},
	} {
		dir := filepath.Join("..", "engine", x.folder)
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		files := make(map[string]string)
		for _, name := range names {
			if ok, err := build.Default.MatchFile(dir, filepath.Base(name)); err != nil || !ok || strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.Base(name)] = string(text)
		}
		m := readMemory(t, compiled.Importer(t, enginePackage+"/"+x.folder), files, x.rules)
		for _, w := range m.wrong {
			t.Error(w)
		}
		for _, w := range m.needless() {
			t.Error(w)
		}
		if len(m.operators) < x.files || m.literals < x.literals {
			t.Errorf("looked at %d files of %s with %d function literals only", len(m.operators), x.folder, m.literals)
		}
	}
}

// A memoryCheck is the check of a package of operators and its findings.
type memoryCheck struct {
	memoryRule
	fset *token.FileSet
	info *types.Info
	pkg  *types.Package

	operators map[string]*ast.File     // by name
	held      map[*types.TypeName]bool // struct types of operators with values that outlive a step
	wrong     []string
	used      map[string]bool // exceptions that were needed
	literals  int
}

// readMemory checks a package, given by file name.
func readMemory(t *testing.T, imp types.Importer, sources map[string]string, rules memoryRule) *memoryCheck {
	t.Helper()
	m := &memoryCheck{
		memoryRule: rules, fset: token.NewFileSet(), operators: make(map[string]*ast.File),
		held: make(map[*types.TypeName]bool), used: make(map[string]bool),
		info: &types.Info{Defs: make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object), Selections: make(map[*ast.SelectorExpr]*types.Selection), Types: make(map[ast.Expr]types.TypeAndValue)},
	}
	var parsed []*ast.File
	var names []string
	for name := range sources {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		f, err := parser.ParseFile(m.fset, name, sources[name], parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	conf := types.Config{Importer: imp}
	pkg, err := conf.Check(operatorsPackage, m.fset, parsed, m.info)
	if err != nil {
		t.Fatal(err)
	}
	m.pkg = pkg
	for i, f := range parsed {
		if m.hasOperators(f) {
			m.operators[names[i]] = f
		}
	}
	for _, f := range m.operators {
		m.file(f)
	}
	slices.Sort(m.wrong)
	return m
}

// hasOperators reports whether a function of a file takes an operator.
func (m *memoryCheck) hasOperators(f *ast.File) bool {
	return slices.ContainsFunc(f.Decls, func(d ast.Decl) bool {
		fn, ok := d.(*ast.FuncDecl)
		return ok && fn.Recv == nil && m.takesOp(fn)
	})
}

func (m *memoryCheck) takesOp(fn *ast.FuncDecl) bool {
	params := m.info.Defs[fn.Name].Type().(*types.Signature).Params()
	for v := range params.Variables() {
		if p, ok := v.Type().(*types.Pointer); ok && named(p.Elem()) != nil && named(p.Elem()).Name() == "Op" {
			return true
		}
	}
	return false
}

// named returns the name of a type or of what it points to, in its generic form if it is
// instantiated.
func named(t types.Type) *types.TypeName {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return n.Origin().Obj()
	}
	return nil
}

// needless returns the exceptions that nothing needs.
func (m *memoryCheck) needless() (all []string) {
	for _, rules := range []map[string]string{m.functions, m.fields} {
		for name, reason := range rules {
			if !m.used[name] {
				all = append(all, fmt.Sprintf("%s (%s): nothing needs this exception", name, reason))
			}
		}
	}
	return all
}

// machinery reports whether a package is that of the operators, or package engine.
func (m *memoryCheck) machinery(p *types.Package) bool {
	return p == m.pkg || p != nil && p.Path() == enginePackage
}

func (m *memoryCheck) errorf(at ast.Node, format string, args ...any) {
	m.wrong = append(m.wrong, fmt.Sprintf("%s: ", m.fset.Position(at.Pos()))+fmt.Sprintf(format, args...))
}

// allowed reports whether an exception exists, and marks it as used.
func (m *memoryCheck) allowed(rules map[string]string, name string) bool {
	if rules[name] == "" {
		return false
	}
	m.used[name] = true
	return true
}
