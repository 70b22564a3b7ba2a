package lint

import (
	"strings"
	"testing"
)

// engineLike is as much of internal/engine as operators need to be checked.
const engineLike = `package engine

type Op struct{ at int; key func() any; site *Site; fields []int }
type Site struct{ at int32 }
type Region struct{ news bool; ends []func() }
type Head struct{ region *Region; site *Site }
type Node struct{ Head; outs []func([]int); push func([]int) }

func (r *Region) atEnd(f func())         { r.ends = append(r.ends, f) }
func (n *Node) To(f func([]int))         { n.outs = append(n.outs, f) }
func (op *Op) scratch(variables ...any)  {}
func (op *Op) holds(variables ...any)    {}
`

const constructorsLike = `package engine

type memory struct{}
type table struct{ n int }

func remember(op *Op, h *Head) memory           { return memory{} }
func lasting(op *Op) memory                     { return memory{} }
func newVar[T any](m memory, init T) *T         { return new(T) }
func newTable(m memory) *table                  { return new(table) }
func (t *table) Put(x int) *int                 { t.n++; return &t.n }
`

// TestMemoryFinds makes sure that TestMemory finds operators that make memory for
// themselves, and no others.
func TestMemoryFinds(t *testing.T) {
	imp := exported(t, "container/list")
	for _, x := range []struct{ name, text, says string }{
		{"a variable", `func Bad(n *Node, op *Op) { k := 0; n.To(func(b []int) { k += len(b) }) }`, "k is written"},
		{"a variable that is counted up", `func Bad(n *Node, op *Op) { k := 0; n.To(func([]int) { k++ }) }`, "k is written"},
		{"a named result", `func Bad(n *Node, op *Op) (k int) { n.To(func([]int) { k = 1 }); return k }`, "k is written"},
		{"a parameter", `func Bad(n *Node, op *Op, k int) { n.To(func([]int) { k-- }) }`, "k is written"},
		{"a variable of a loop", `func Bad(n *Node, op *Op) { k := 0; n.To(func(b []int) { for k = range b { }; _ = k }) }`, "k is written"},
		{"an array", `func Bad(n *Node, op *Op) { var k [1]int; n.To(func([]int) { k[0]++ }) }`, "k is written"},
		{"a slice", `func Bad(n *Node, op *Op) { k := make([]int, 1); n.To(func(b []int) { copy(k, b) }) }`, "k is written"},
		{"a slice that somebody else writes", `func Bad(n *Node, op *Op) { k := make([]int, 1); n.To(func(b []int) { helper(k) }) }
func helper(k []int) { k[0]++ }`, "k was made"},
		{"a slice of a slice", `func Bad(n *Node, op *Op) { var k []int; n.To(func(b []int) { b = append(k[:0], b...) }) }`, "k is written"},
		{"a literal of a slice", `func Bad(n *Node, op *Op) { k := []int{0}; n.To(func(b []int) { n.push(k) }) }`, "k was made"},
		{"a pointer", `func Bad(n *Node, op *Op) { k := new(int); n.To(func([]int) { *k++ }) }`, "k is written"},
		{"a pointer that somebody else writes", `func Bad(n *Node, op *Op) { k := new(int); n.To(func([]int) { helper(k) }) }
func helper(k *int) { *k++ }`, "k is written"},
		{"an address", `func Bad(n *Node, op *Op) { k := 0; n.To(func([]int) { helper(&k) }) }
func helper(k *int) {}`, "k is written"},
		{"a map", `func Bad(n *Node, op *Op) { n.To(func([]int) { _ = map[int]int{} }) }`, "has a map"},
		{"a channel", `func Bad(n *Node, op *Op) { k := make(chan int, 1); n.To(func([]int) { k <- 1 }) }`, "has a channel"},
		{"a struct", `func Bad(n *Node, op *Op) { var k struct{ a int }; n.To(func([]int) { k.a++ }) }`, "k.a is written"},
		{"a field", `type own struct{ a int }
func Bad(n *Node, op *Op) { k := &own{}; n.To(func([]int) { k.a++ }) }`, "k.a is written"},
		{"a field that a method writes", `type own struct{ a int }
func (o *own) add() { o.a++ }
func Bad(n *Node, op *Op) { k := &own{}; n.To(func([]int) { k.add() }) }`, "o.a is written"},
		{"a field of a field", `type inner struct{ a []int }
type own struct{ in inner }
func Bad(n *Node, op *Op) { k := &own{}; n.To(func(b []int) { k.in.a = append(k.in.a, b...) }) }`, "k.in.a is written"},
		{"a field behind a pointer", `type own struct{ a *int }
func Bad(n *Node, op *Op) { k := own{a: new(int)}; n.To(func([]int) { *k.a++ }) }`, "k.a is written"},
		{"a field that is declared for another one", `type own struct{ a, b int }
func Bad(n *Node, op *Op) { k := &own{}; op.scratch(&k.a); n.To(func([]int) { k.b++ }) }`, "k.b is written"},
		{"a field that another operator declares", `type own struct{ a int }
func Good(n *Node, op *Op) { k := &own{}; op.scratch(&k.a); n.To(func([]int) { k.a++ }) }
func Bad(n *Node, op *Op) { k := &own{}; n.To(func([]int) { k.a++ }) }`, "k.a is written"},
		{"a method of a variable", `type own struct{ a int }
func (o *own) take([]int) { o.a++ }
func Bad(n *Node, op *Op) { var k own; n.To(k.take) }`, "o.a is written"},
		{"a field of an operator", `func Bad(n *Node, op *Op) { n.To(func(b []int) { op.fields = b }) }`, "op.fields is written"},
		{"a closure of a closure", `func Bad(n *Node, op *Op) { f := func() func() int { k := 0; return func() int { k++; return k } }(); n.To(func([]int) { f() }) }`, "k is written"},
		{"a closure that a helper makes", `func helper() func() int { k := 0; return func() int { k++; return k } }
func Bad(n *Node, op *Op) { f := helper(); n.To(func([]int) { f() }) }`, "k is written"},
		{"a variable of a literal", `func Bad(n *Node, op *Op) { n.To(func([]int) { k := 0; n.To(func([]int) { k++ }) }) }`, "k is written"},
		{"a constructor's variable that is another one later", `func Bad(n *Node, op *Op) { k := newVar(remember(op, &n.Head), 0); n.To(func([]int) { k = new(int); *k++ }) }`, "k is written"},
		{"a constructor's variable or another one", `func Bad(n *Node, op *Op) { k := newVar(remember(op, &n.Head), 0); if n.region != nil { k = new(int) }; n.To(func([]int) { *k++ }) }`, "k is written"},
		{"state that outlasts a run", `func Bad(n *Node, op *Op) { k := newVar(lasting(op), 0); n.To(func([]int) { *k++ }) }`, "calls lasting"},
		{"a package variable", `var k int
func Bad(n *Node, op *Op) {}`, "package variable"},
		{"another package", `import "container/list"
func Bad(n *Node, op *Op) { k := list.New(); n.To(func([]int) { k.PushBack(1) }) }`, "imports container/list"},

		{"nothing", `func Good(n *Node, op *Op) { n.To(func(b []int) { k := 0; for range b { k++ } }) }`, ""},
		{"a variable from a constructor", `func Good(n *Node, op *Op) { k := newVar(remember(op, &n.Head), 0); n.To(func([]int) { *k++ }) }`, ""},
		{"a table from a constructor", `func Good(n *Node, op *Op) { k := newTable(remember(op, &n.Head)); n.To(func(b []int) { *k.Put(1) = 2 }) }`, ""},
		{"a field from a constructor", `type own struct{ a *int }
func (o *own) add() { *o.a++ }
func Good(n *Node, op *Op) { k := &own{a: newVar(remember(op, &n.Head), 0)}; n.To(func([]int) { k.add() }) }`, ""},
		{"scratch", `func Good(n *Node, op *Op) { var k []int; op.scratch(&k); n.To(func(b []int) { k = append(k[:0], b...); n.push(k) }) }`, ""},
		{"a field that is scratch", `type own struct{ a []int }
func (o *own) add(b []int) { o.a = append(o.a[:0], b...) }
func Good(n *Node, op *Op) { k := &own{}; op.scratch(&k.a); n.To(k.add) }`, ""},
		{"a struct that is scratch", `type own struct{ a []int }
func (o *own) add(b []int) { o.a = append(o.a[:0], b...) }
func Good(n *Node, op *Op) { var k own; op.holds(&k); n.To(k.add) }`, ""},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "_"), func(t *testing.T) {
			m := readMemory(t, imp, map[string]string{
				"site.go": engineLike, "state.go": constructorsLike, "operator.go": "package engine\n\n" + x.text,
			}, memoryRule{})
			said := strings.Join(m.wrong, "\n")
			if x.says == "" && said != "" || !strings.Contains(said, x.says) {
				t.Errorf("found %q, want %q", said, x.says)
			}
		})
	}
}
