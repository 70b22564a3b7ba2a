package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

const source = `package p

type box struct{ n int }

func (b *box[T]) add(x int, xs []int) {
	if x < 3 && b.n > x {
		b.n = x
		delete(m, x)
	}
	switch x {
	case 7:
		xs = append(xs, x)
	default:
	}
	y := x
	y = 2
	fmt.Println(5)
	b.opts.Log.Warn("six", "n", 6)
	b.op.Scratch(&x, 7)
	panic(6)
}

func (b box) String() string { b.n = 8; return "" }
`

// TestMutants checks the list of all mutants of a small file. It catches an operator that finds
// nothing, a change at the wrong place, and a mutant of a message.
func TestMutants(t *testing.T) {
	all, err := inFile("p/p.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		if broken := string(m.apply([]byte(source))); len(broken) != len(source)-(m.to-m.from)+len(m.text) || broken == source {
			t.Errorf("%s changes nothing", m.name())
		}
		got = append(got, strings.Join([]string{m.name(), source[m.from:m.to], m.text}, " | "))
	}
	want := []string{
		`p/p.go box.add return 0 |  | return; `,
		`p/p.go box.add negate 0 | x < 3 && b.n > x | !(x < 3 && b.n > x)`,
		`p/p.go box.add logic 0 | && | ||`,
		`p/p.go box.add compare 0 | < | <=`,
		`p/p.go box.add constant 0 | 3 | (3 + 1)`,
		`p/p.go box.add constant 1 | 3 | (3 - 1)`,
		`p/p.go box.add compare 1 | > | >=`,
		`p/p.go box.add drop 0 | b.n = x | `,
		`p/p.go box.add drop 1 | delete(m, x) | `,
		`p/p.go box.add swap 0 | b.n = x
		delete(m, x) | delete(m, x); b.n = x`,
		`p/p.go box.add case 0 | case 7:
		xs = append(xs, x) | `,
		`p/p.go box.add constant 2 | 7 | (7 + 1)`,
		`p/p.go box.add constant 3 | 7 | (7 - 1)`,
		`p/p.go box.add drop 2 | xs = append(xs, x) | `,
		`p/p.go box.add constant 4 | 2 | (2 + 1)`,
		`p/p.go box.add constant 5 | 2 | (2 - 1)`,
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("there are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestApart checks that apart reports exactly the pairs of statements whose order cannot matter.
func TestApart(t *testing.T) {
	for text, want := range map[string]bool{
		"a.x = 1; a.y = 2":          true,
		"a.x = 1; b.x = 2":          false, // a and b may be the same
		"a.x = 1; y[a.x] = 2":       false,
		"x[0], x[1] = i, i; n++":    true,
		"n++; x[n] = 0":             false,
		"*p = 1; *q = 2":            false, // p and q may be the same
		"a.x = f(); a.y = 2":        false,
		"a.x = len(y); a.z = 2":     true,
		"a.x = len(y); a.y = nil":   false,
		"a.x = <-c; a.y = 2":        false,
		"f(); a.y = 2":              false,
		"x = append(x, 1); a.y = 1": true,

		"op.Clocked(); op.Owns(m)":                 true,
		"op.Clocked(); op.Key = f":                 true,
		"op.Clocked(); f()":                        false,
		"a.x = func() { f(); y = 2 }; a.y = 2":     true,
		"a.x = func() int { return 1 }(); y = a.x": false,
	} {
		tree, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f() { "+text+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		list := tree.Decls[0].(*ast.FuncDecl).Body.List
		if got := apart(list[0], list[1]); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// TestSample checks that a sample does not depend on the order of the mutants, comes from many
// functions, and that no two mutants have the same name.
func TestSample(t *testing.T) {
	root, all := ofModule(t)
	some := sample(all, 20)
	backwards := slices.Clone(all)
	slices.Reverse(backwards)
	if !slices.Equal(some, sample(backwards, 20)) || !slices.Equal(some, sample(all, 0)[:20]) {
		t.Errorf("%s: the sample depends on the order of files", root)
	}
	functions := make(map[string]bool)
	for _, m := range sample(all, 100) {
		functions[m.file+m.fn] = true
	}
	if len(functions) < 85 {
		t.Errorf("100 mutants are of %d functions", len(functions))
	}
	if len(all) < 1000 {
		t.Errorf("only %d mutants", len(all))
	}
	seen := make(map[string]bool)
	for _, m := range all {
		if seen[m.name()] {
			t.Errorf("there are two mutants %q", m.name())
		}
		seen[m.name()] = true
	}
}

// ofModule returns all mutants of the default folders.
func ofModule(t *testing.T) (root string, all []mutant) {
	t.Helper()
	root, _, packages, err := list(folders)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		of, err := mutants(root, p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, of...)
	}
	return root, all
}

// TestEquivalent checks that every mutant listed in equivalent.txt exists, and that wrong lists
// are refused.
func TestEquivalent(t *testing.T) {
	listed, err := equivalents(equivalentText)
	if err != nil {
		t.Fatal(err)
	}
	_, all := ofModule(t)
	for name := range listed {
		if !slices.ContainsFunc(all, func(m mutant) bool { return m.listed() == name }) {
			t.Errorf("equivalent.txt: there is no mutant %q: it was removed, or is another change now; look again", name)
		}
	}
	for _, text := range []string{"a b c 1", "a b c 1: ", "a b c 1: x\na b c 1: y"} {
		if _, err := equivalents(text); err == nil {
			t.Errorf("%q is taken as a list", text)
		}
	}
}

// TestChange checks how mutants are listed as equivalent. The name in the list must change when the number of a
// mutant becomes that of another change, and must stay the same when the function is only indented.
func TestChange(t *testing.T) {
	of := func(body string) (all []string) {
		t.Helper()
		ms, err := inFile("p/p.go", []byte("package p\n\nfunc F(a, b int) (c int) {\n"+body+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			if m.operator == "compare" {
				all = append(all, m.listed())
			}
		}
		return all
	}
	one := of("\tif a < b && b < 9 {\n\t\tc = 1\n\t}\n\treturn c\n")
	if len(one) != 2 || one[0][len(one[0])-6:] == one[1][len(one[1])-6:] {
		t.Errorf("two comparisons of a line are %q", one)
	}
	if again := of("\t\t\tif a < b && b < 9 {\n\t\tc = 2\n\t}\n\treturn c\n"); !slices.Equal(again, one) {
		t.Errorf("indented they are %q, want %q", again, one)
	}
	if other := of("\tif c < b && b < 9 {\n\t\tc = 1\n\t}\n\treturn c\n"); other[0] == one[0] || other[1] == one[1] {
		t.Errorf("in another line they are %q as well", other)
	}
	if before := of("\tif b < a {\n\t\treturn 0\n\t}\n\tif a < b && b < 9 {\n\t\tc = 1\n\t}\n\treturn c\n"); slices.Contains(before, one[0]) || slices.Contains(before, one[1]) {
		t.Errorf("behind another one they are %q", before)
	}
}

// TestTable checks the text of a table.
func TestTable(t *testing.T) {
	got := table([]string{"a", "b", "c"}, map[string]*score{"a": {6, 1, 2, 1, 5}, "c": {0, 0, 0, 0, 1}})
	want := `| package | mutants | killed | survived | equivalent | uncovered | score |
|---|---|---|---|---|---|---|
| a | 10 | 6 | 1 | 2 | 1 | 75.0 % |
| c | 0 | 0 | 0 | 0 | 0 | – |
| all | 10 | 6 | 1 | 2 | 1 | 75.0 % |
`
	if got != want {
		t.Errorf("the table is\n%swant\n%s", got, want)
	}
}

// TestCopies compiles the mutants of a function into it. The copies must have different
// labels, must note outside of switches what is reached, and must each have their own file.
func TestCopies(t *testing.T) {
	const src = "package p\n\nfunc f(x int) {\nouter:\n\tfor {\n\t\tswitch {\n\t\tcase x > 1:\n\t\t\tbreak outer\n\t\t}\n\t\tx++\n\t}\n}\n"
	all, err := inFile("p/p.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	of := make(map[int]mutant)
	for i, m := range all {
		if m.operator == "case" || m.operator == "drop" {
			of[i] = m
		}
	}
	got, broken, err := withAll("/m/p/p.go", []byte(src), of)
	if err != nil || len(broken) > 0 || len(of) != 2 {
		t.Fatalf("%d mutants, broken %v, %v", len(of), broken, err)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "", got, 0); err != nil {
		t.Fatalf("%v in\n%s", err, got)
	}
	for n, m := range of {
		for _, part := range []string{fmt.Sprintf("//line /m/p/mutant%d.go:1\nif mutantNow == %d {", n, n), fmt.Sprintf("outerMutant%d:", n), fmt.Sprintf("mutantHere(%d); ", n)} {
			if strings.Count(string(got), part) != 1 {
				t.Errorf("%s: %q is not there once in\n%s", m.name(), part, got)
			}
		}
	}
	if !strings.Contains(string(got), "//line /m/p/p.go:3\n\nouter:\n") {
		t.Errorf("the original does not go on in its line:\n%s", got)
	}
}
