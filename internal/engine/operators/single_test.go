package operators_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// runKeyed builds the program of a seed, sends records one by one and returns the output.
func runKeyed(t *testing.T, seed uint64, batches bool, drawn map[string]bool) []string {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(seed, 3))
	g := newTestGraph()
	if batches {
		g.PushBatches()
	}
	d := &drawnKeyed{t: t, r: r, s: g.NewLocation("here"), other: g.NewLocation("there")}
	in, root := port.NewInput[int](d.s, d.op("Input"))
	kin, kroot := port.NewKeyedInput[int, int](d.s, d.op("KeyedInput"))
	uin, uroot := port.NewEntryInput[int, int](d.s, d.op("Entries"), nil)
	d.once = uin
	d.nodes = []*knode{operators.KeyBy(root, d.op("KeyBy"), func(x int) int { return x % 6 }), kroot, uroot}
	names := slices.Sorted(maps.Keys(keyedOps))
	for range 1 + r.IntN(6) {
		name := names[r.IntN(len(names))]
		drawn[name] = true
		d.nodes = append(d.nodes, d.watch(keyedOps[name](d, d.node())))
	}
	g.Start(ctx)
	for i := range 30 {
		var err error
		switch x := r.IntN(20); r.IntN(3) {
		case 0:
			err = in.Send(ctx, x)
		case 1:
			err = kin.Send(ctx, x%5, x)
		case 2:
			err = uin.Send(ctx, i, x)
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.IntN(2) == 0 {
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
	}
	time.Sleep(10 * time.Millisecond)
	g.Stop()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, f := range d.ends {
		f()
	}
	return d.log
}

// TestSinglesAreBatchesOfOne checks that a single entry has the same effects, in the same order,
// whether operators push it as it is or as a batch of one.
func TestSinglesAreBatchesOfOne(t *testing.T) {
	drawn := make(map[string]bool)
	for seed := range uint64(600) {
		var one, batch []string
		synctest.Test(t, func(t *testing.T) { one = runKeyed(t, seed, false, drawn) })
		synctest.Test(t, func(t *testing.T) { batch = runKeyed(t, seed, true, drawn) })
		for i := range max(len(one), len(batch)) {
			if i >= len(one) || i >= len(batch) || one[i] != batch[i] {
				t.Fatalf("seed %d: single entries gave %d things, batches of one %d; the first that differs is number %d: %q and %q",
					seed, len(one), len(batch), i, one[i:min(i+1, len(one))], batch[i:min(i+1, len(batch))])
			}
		}
	}
	for name := range keyedOps {
		if !drawn[name] {
			t.Errorf("%s was never drawn", name)
		}
	}
}

// batchesOnly lists the functions that add a consumer of keyed data without a form for single
// entries, and why.
var batchesOnly = map[string]string{
	"KObserve":       "is there in simulations only",
	"KLoose":         "is there in simulations only",
	"watched":        "is there in simulations only",
	"mapLives":       "starts a call, which costs a hundred times as much",
	"DropOn":         "is given what timers fire, which comes in batches",
	"withMarksKeyed": "sends to another location, which costs a hundred times as much",
	"unmarkedKeyed":  "takes what withMarksKeyed has sent",
	"ForgetOn":       "is given what timers fire, which comes in batches",
}

// TestSinglesAreDrawn checks that each operator over keyed data either has a form for single entries,
// which TestSinglesAreBatchesOfOne draws, or is in batchesOnly.
func TestSinglesAreDrawn(t *testing.T) {
	fset := token.NewFileSet()
	var files []string
	for _, dir := range []string{"", "../port/"} {
		some, err := filepath.Glob(dir + "*.go")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, some...)
	}
	found := make(map[string]bool)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			consumers, singles := keyedConsumers(fn)
			if consumers == 0 {
				continue
			}
			name := fn.Name.Name
			found[name] = true
			why, listed := batchesOnly[name]
			switch {
			case listed && (singles > 0 || why == ""):
				t.Errorf("%s: %s is in batchesOnly and has a form for single entries, or no reason", fset.Position(fn.Pos()), name)
			case !listed && singles < consumers:
				t.Errorf("%s: %s adds %d consumers and %d forms for single entries: write them, or say in batchesOnly why not", fset.Position(fn.Pos()), name, consumers, singles)
			case !listed && keyedOps[name] == nil:
				t.Errorf("%s: %s is not drawn by TestSinglesAreBatchesOfOne", fset.Position(fn.Pos()), name)
			}
		}
	}
	for name := range batchesOnly {
		if !found[name] {
			t.Errorf("batchesOnly has %s, which adds no consumer", name)
		}
	}
}

// keyedConsumers counts the consumers of keyed data that a function adds, and how many of them have a
// form for single entries.
func keyedConsumers(fn *ast.FuncDecl) (consumers, singles int) {
	if fn.Name.Name == "track" {
		return 0, 0
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			switch f := n.Fun.(type) {
			case *ast.SelectorExpr:
				adds := f.Sel.Name == "To" && len(n.Args) == 1 || f.Sel.Name == "Attach" && len(n.Args) == 2
				if adds && ofBatch(fn, n.Args[len(n.Args)-1]) {
					consumers++
				}
			case *ast.Ident:
				switch f.Name {
				case "track":
					consumers++
				case "deferred":
					consumers++
					if len(n.Args) == 5 {
						singles++
					}
				}
			}
		case *ast.AssignStmt:
			if sel, ok := n.Lhs[0].(*ast.SelectorExpr); ok && (sel.Sel.Name == "One" || sel.Sel.Name == "MakeOne") {
				singles++
			}
		}
		return true
	})
	return consumers, singles
}

// ofBatch reports whether the argument of To or Attach is a function of a batch.
func ofBatch(fn *ast.FuncDecl, arg ast.Expr) bool {
	switch arg := arg.(type) {
	case *ast.FuncLit:
		p := arg.Type.Params.List
		if len(p) != 1 {
			return false
		}
		star, ok := p[0].Type.(*ast.StarExpr)
		if !ok {
			return false
		}
		x, ok := star.X.(*ast.IndexListExpr)
		if !ok {
			return false
		}
		sel, ok := x.X.(*ast.SelectorExpr)
		return ok && sel.Sel.Name == "Batch"
	case *ast.SelectorExpr:
		return arg.Sel.Name == "keep"
	case *ast.Ident:
		return arg.Name == "f" && fn.Name.Name == "deferred" || arg.Name == "add"
	}
	return false
}

// TestSinglesStaySingle sends a single entry through operators that report no forgotten keys, or that
// receive such keys. It fails if one makes a batch of it: the results would be correct, but each
// record would cost twice as much.
func TestSinglesStaySingle(t *testing.T) {
	odd := func(_, v int) (int, bool) { return v, v%2 == 1 }
	for name, build := range map[string]func(op func(string) *engine.Op, n *knode) *knode{
		"KMap": func(op func(string) *engine.Op, n *knode) *knode {
			return operators.KMap(n, op("KMap"), func(v int) int { return v })
		},
		"KFilterMap": func(op func(string) *engine.Op, n *knode) *knode {
			return operators.KFilterMap(n, op("KFilterMap"), odd)
		},
		"KFilterMap of keys that are forgotten": func(op func(string) *engine.Op, n *knode) *knode {
			first := operators.FirstWithin(n, op("FirstWithin"), operators.Retain{Keys: 3})
			return operators.KFilterMap(first, op("KFilterMap"), odd)
		},
		"KFork": func(op func(string) *engine.Op, n *knode) *knode {
			yes, _ := operators.KFork(n, op("KFork"), func(v int) (int, int, bool) { return v, v, v%2 == 1 })
			return yes
		},
	} {
		g := newTestGraph()
		s := g.NewLocation("here")
		in, root := port.NewKeyedInput[int, int](s, engine.NewOp(s, "in", ""))
		singles, batches := 0, 0
		c := engine.Attach(build(func(name string) *engine.Op { return engine.NewOp(s, name, "") }, root), func(*engine.Batch[int, int]) { batches++ })
		c.One = func(int, int, uint64) { singles++ }
		g.Start(t.Context())
		for i := range 3 {
			if err := in.Send(t.Context(), i, i); err != nil {
				t.Fatal(err)
			}
		}
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		want := 1 // of the three values
		if name == "KMap" {
			want = 3
		}
		if singles != want || batches > 0 {
			t.Errorf("%s gave %d entries alone and %d batches, want %d and none", name, singles, batches, want)
		}
	}
}
