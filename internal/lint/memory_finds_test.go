package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/compiled"
)

// engineLike is the part of internal/engine that checking operators needs.
const engineLike = `package engine

type Op struct{ At int; Key func() any; Loc *Location; Fields []int }
type Location struct{ At int32 }
type Region struct{ News bool; ends []func() }
type Head struct{ Region *Region; Loc *Location }
type Node struct{ Head; Outs []func([]int); Push func([]int) }
type Memory struct{}

func (r *Region) AtEnd(f func())         { r.ends = append(r.ends, f) }
func (n *Node) To(f func([]int))         { n.Outs = append(n.Outs, f) }
func (op *Op) Scratch(variables ...any)  {}
func (op *Op) Holds(variables ...any)    {}
func Remember(op *Op, h *Head) Memory    { return Memory{} }
func Lasting(op *Op) Memory              { return Memory{} }
`

// stateLike has constructors like those of internal/engine/state.
const stateLike = `package state

import "github.com/millrace/millrace/internal/engine"

type Table struct{ n int }

func NewVar[T any](m engine.Memory, init T) *T  { return new(T) }
func NewTable(m engine.Memory) *Table           { return new(Table) }
func (t *Table) Put(x int) *int                 { t.n++; return &t.n }
`

// checkedPackages imports packages that were checked from text, and others.
type checkedPackages struct {
	types.Importer
	checked map[string]*types.Package
}

func (c checkedPackages) Import(path string) (*types.Package, error) {
	if p := c.checked[path]; p != nil {
		return p, nil
	}
	return c.Importer.Import(path)
}

// check type-checks a package from text and adds it.
func (c checkedPackages) check(t *testing.T, path, text string) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path+".go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	conf := types.Config{Importer: c}
	if c.checked[path], err = conf.Check(path, fset, []*ast.File{f}, nil); err != nil {
		t.Fatal(err)
	}
}

// TestMemoryFinds checks that TestMemory finds operators that make memory for themselves, and no others.
func TestMemoryFinds(t *testing.T) {
	imp := checkedPackages{compiled.Importer(t, "container/list"), make(map[string]*types.Package)}
	imp.check(t, enginePackage, engineLike)
	imp.check(t, statePackage, stateLike)
	for _, x := range []struct{ name, text, says string }{
		{"a variable", `func Bad(n *engine.Node, op *engine.Op) { k := 0; n.To(func(b []int) { k += len(b) }) }`, "k is written"},
		{"a variable that is counted up", `func Bad(n *engine.Node, op *engine.Op) { k := 0; n.To(func([]int) { k++ }) }`, "k is written"},
		{"a named result", `func Bad(n *engine.Node, op *engine.Op) (k int) { n.To(func([]int) { k = 1 }); return k }`, "k is written"},
		{"a parameter", `func Bad(n *engine.Node, op *engine.Op, k int) { n.To(func([]int) { k-- }) }`, "k is written"},
		{"a variable of a loop", `func Bad(n *engine.Node, op *engine.Op) { k := 0; n.To(func(b []int) { for k = range b { }; _ = k }) }`, "k is written"},
		{"an array", `func Bad(n *engine.Node, op *engine.Op) { var k [1]int; n.To(func([]int) { k[0]++ }) }`, "k is written"},
		{"a slice", `func Bad(n *engine.Node, op *engine.Op) { k := make([]int, 1); n.To(func(b []int) { copy(k, b) }) }`, "k is written"},
		{"a slice that somebody else writes", `func Bad(n *engine.Node, op *engine.Op) { k := make([]int, 1); n.To(func(b []int) { helper(k) }) }
func helper(k []int) { k[0]++ }`, "k was made"},
		{"a slice of a slice", `func Bad(n *engine.Node, op *engine.Op) { var k []int; n.To(func(b []int) { b = append(k[:0], b...) }) }`, "k is written"},
		{"a literal of a slice", `func Bad(n *engine.Node, op *engine.Op) { k := []int{0}; n.To(func(b []int) { n.Push(k) }) }`, "k was made"},
		{"a pointer", `func Bad(n *engine.Node, op *engine.Op) { k := new(int); n.To(func([]int) { *k++ }) }`, "k is written"},
		{"a pointer that somebody else writes", `func Bad(n *engine.Node, op *engine.Op) { k := new(int); n.To(func([]int) { helper(k) }) }
func helper(k *int) { *k++ }`, "k is written"},
		{"an address", `func Bad(n *engine.Node, op *engine.Op) { k := 0; n.To(func([]int) { helper(&k) }) }
func helper(k *int) {}`, "k is written"},
		{"a map", `func Bad(n *engine.Node, op *engine.Op) { n.To(func([]int) { _ = map[int]int{} }) }`, "has a map"},
		{"a channel", `func Bad(n *engine.Node, op *engine.Op) { k := make(chan int, 1); n.To(func([]int) { k <- 1 }) }`, "has a channel"},
		{"a struct", `func Bad(n *engine.Node, op *engine.Op) { var k struct{ a int }; n.To(func([]int) { k.a++ }) }`, "k.a is written"},
		{"a field", `type own struct{ a int }
func Bad(n *engine.Node, op *engine.Op) { k := &own{}; n.To(func([]int) { k.a++ }) }`, "k.a is written"},
		{"a field that a method writes", `type own struct{ a int }
func (o *own) add() { o.a++ }
func Bad(n *engine.Node, op *engine.Op) { k := &own{}; n.To(func([]int) { k.add() }) }`, "o.a is written"},
		{"a field of a field", `type inner struct{ a []int }
type own struct{ in inner }
func Bad(n *engine.Node, op *engine.Op) { k := &own{}; n.To(func(b []int) { k.in.a = append(k.in.a, b...) }) }`, "k.in.a is written"},
		{"a field behind a pointer", `type own struct{ a *int }
func Bad(n *engine.Node, op *engine.Op) { k := own{a: new(int)}; n.To(func([]int) { *k.a++ }) }`, "k.a is written"},
		{"a field that is declared for another one", `type own struct{ a, b int }
func Bad(n *engine.Node, op *engine.Op) { k := &own{}; op.Scratch(&k.a); n.To(func([]int) { k.b++ }) }`, "k.b is written"},
		{"a field that another operator declares", `type own struct{ a int }
func Good(n *engine.Node, op *engine.Op) { k := &own{}; op.Scratch(&k.a); n.To(func([]int) { k.a++ }) }
func Bad(n *engine.Node, op *engine.Op) { k := &own{}; n.To(func([]int) { k.a++ }) }`, "k.a is written"},
		{"a method of a variable", `type own struct{ a int }
func (o *own) take([]int) { o.a++ }
func Bad(n *engine.Node, op *engine.Op) { var k own; n.To(k.take) }`, "o.a is written"},
		{"a field of an operator", `func Bad(n *engine.Node, op *engine.Op) { n.To(func(b []int) { op.Fields = b }) }`, "op.Fields is written"},
		{"a closure of a closure", `func Bad(n *engine.Node, op *engine.Op) { f := func() func() int { k := 0; return func() int { k++; return k } }(); n.To(func([]int) { f() }) }`, "k is written"},
		{"a closure that a helper makes", `func helper() func() int { k := 0; return func() int { k++; return k } }
func Bad(n *engine.Node, op *engine.Op) { f := helper(); n.To(func([]int) { f() }) }`, "k is written"},
		{"a variable of a literal", `func Bad(n *engine.Node, op *engine.Op) { n.To(func([]int) { k := 0; n.To(func([]int) { k++ }) }) }`, "k is written"},
		{"a constructor's variable that is another one later", `func Bad(n *engine.Node, op *engine.Op) { k := state.NewVar(engine.Remember(op, &n.Head), 0); n.To(func([]int) { k = new(int); *k++ }) }`, "k is written"},
		{"a constructor's variable or another one", `func Bad(n *engine.Node, op *engine.Op) { k := state.NewVar(engine.Remember(op, &n.Head), 0); if n.Region != nil { k = new(int) }; n.To(func([]int) { *k++ }) }`, "k is written"},
		{"state that outlasts a run", `func Bad(n *engine.Node, op *engine.Op) { k := state.NewVar(engine.Lasting(op), 0); n.To(func([]int) { *k++ }) }`, "calls engine.Lasting"},
		{"a package variable", `var k int
func Bad(n *engine.Node, op *engine.Op) {}`, "package variable"},
		{"another package", `import "container/list"
func Bad(n *engine.Node, op *engine.Op) { k := list.New(); n.To(func([]int) { k.PushBack(1) }) }`, "imports container/list"},

		{"nothing", `func Good(n *engine.Node, op *engine.Op) { n.To(func(b []int) { k := 0; for range b { k++ } }) }`, ""},
		{"a variable from a constructor", `func Good(n *engine.Node, op *engine.Op) { k := state.NewVar(engine.Remember(op, &n.Head), 0); n.To(func([]int) { *k++ }) }`, ""},
		{"a table from a constructor", `func Good(n *engine.Node, op *engine.Op) { k := state.NewTable(engine.Remember(op, &n.Head)); n.To(func(b []int) { *k.Put(1) = 2 }) }`, ""},
		{"a field from a constructor", `type own struct{ a *int }
func (o *own) add() { *o.a++ }
func Good(n *engine.Node, op *engine.Op) { k := &own{a: state.NewVar(engine.Remember(op, &n.Head), 0)}; n.To(func([]int) { k.add() }) }`, ""},
		{"scratch", `func Good(n *engine.Node, op *engine.Op) { var k []int; op.Scratch(&k); n.To(func(b []int) { k = append(k[:0], b...); n.Push(k) }) }`, ""},
		{"a field that is scratch", `type own struct{ a []int }
func (o *own) add(b []int) { o.a = append(o.a[:0], b...) }
func Good(n *engine.Node, op *engine.Op) { k := &own{}; op.Scratch(&k.a); n.To(k.add) }`, ""},
		{"a struct that is scratch", `type own struct{ a []int }
func (o *own) add(b []int) { o.a = append(o.a[:0], b...) }
func Good(n *engine.Node, op *engine.Op) { var k own; op.Holds(&k); n.To(k.add) }`, ""},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "_"), func(t *testing.T) {
			imports := "import \"" + enginePackage + "\"\n"
			if strings.Contains(x.text, "state.") {
				imports += "import \"" + statePackage + "\"\n"
			}
			m := readMemory(t, imp, map[string]string{"operator.go": "package operators\n\n" + imports + x.text}, memoryRule{})
			said := strings.Join(m.wrong, "\n")
			if x.says == "" && said != "" || !strings.Contains(said, x.says) {
				t.Errorf("found %q, want %q", said, x.says)
			}
		})
	}
}
