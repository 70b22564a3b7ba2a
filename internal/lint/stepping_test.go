package lint

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/compiled"
)

// stepping lists where each function that is part of a step may be called. A place is a file or
// folder in internal/engine. A folder ends with a slash, and a file may be followed by a colon
// and the only function that may call. The keys are package, type and name.
var stepping = map[string][]string{
	// records of inputs
	"engine.Input.Push":  {"step.go"},
	"engine.StepOne":     {"port/input.go:stepOne", "port/turn.go:SendInTurn"},
	"engine.StepAll":     {"port/input.go:stepAll"},
	"engine.StepEntry":   {"port/keyed_input.go:stepOne", "port/turn.go:SendInTurn"},
	"engine.StepEntries": {"port/keyed_batch.go:stepAll", "port/keyed_batch.go:stepTaken"},

	// timers and slices
	"engine.Location.fireUntil": {"step.go"},
	"engine.TimerQueue.Expire":  {"fire.go"},
	"engine.Region.run":         {"step.go"},

	// pushing into nodes: inputs do it when the step asks them to
	"engine.Node.Push":          {"status.go:count", "batch.go", "operators/", "windows/", "port/exchange.go:withMarks", "port/cycle.go:loose"},
	"engine.Node.One":           {"status.go:count", "batch.go", "step.go", "operators/", "windows/", "port/cycle.go:loose", "port/cycle.go:KLoose"},
	"engine.KeyedNode.Push":     {"status.go:countEntries", "batch.go", "machines/", "operators/", "windows/", "port/divide.go", "port/async_lives.go", "port/exchange.go:exchangeLives", "port/exchange.go:withMarksKeyed"},
	"engine.KeyedNode.One":      {"status.go:countEntries", "batch.go", "step.go", "machines/", "operators/", "windows/", "port/divide.go", "port/async_lives.go", "port/exchange.go:exchangeLives", "port/exchange.go:withMarksKeyed", "port/exchange.go:unmarkedKeyed", "port/cycle.go:KLoose"},
	"engine.Consumer.Push":      {"node.go", "observe.go:watchElements", "alias.go:checkReaders"},
	"engine.Consumer.One":       {"node.go", "observe.go:watchElements", "alias.go:checkReaders"},
	"engine.KeyedConsumer.push": {"node.go", "observe.go:watchEntries", "alias.go:checkKeyedReaders"},
	"engine.KeyedConsumer.One":  {"node.go", "observe.go:watchEntries", "alias.go:checkKeyedReaders"},
	"engine.PushBlocks":         {"step.go", "operators/", "windows/", "port/input.go:Push", "port/exchange.go:unmarked"},
	"engine.PushEntries":        {"step.go", "machines/", "operators/", "windows/", "port/keyed_input.go:Push", "port/exchange.go:unmarkedKeyed"},

	// the step itself: drivers make it from a plan
	"engine.Location.Step": {"live/live.go:Perform", "simulate/simulate.go:Perform", "simulate/replay.go:Perform", "logdriven/executor.go:make"},
}

// A stepCall is a call of a function that is part of a step.
type stepCall struct {
	what string
	file string // from internal/engine
	fn   string
	at   string
}

func (c stepCall) allowed() bool {
	return slices.ContainsFunc(stepping[c.what], func(where string) bool {
		file, fn, only := strings.Cut(where, ":")
		return (file == c.file || strings.HasSuffix(file, "/") && strings.HasPrefix(c.file, file)) && (!only || fn == c.fn)
	})
}

// TestStepping checks that only the step and the operators push records, fire timers and run slices.
func TestStepping(t *testing.T) {
	used := make(map[string]bool)
	for dir := range layers {
		for _, c := range stepCalls(t, dir, "") {
			used[c.what] = true
			if !c.allowed() {
				t.Errorf("%s: %s calls %s: only the one step does, see the table in this test", c.at, c.fn, c.what)
			}
		}
	}
	for what := range stepping {
		if !used[what] {
			t.Errorf("nothing calls %s: the rule looks at the wrong place", what)
		}
	}
}

// TestSteppingFinds checks that TestStepping finds a call in each wrong place.
func TestSteppingFinds(t *testing.T) {
	const drivers = `import "github.com/millrace/millrace/internal/engine"
func planted(s *engine.Location, in engine.Input, q engine.TimerQueue, n *engine.Node[int], k *engine.KeyedNode[int, int]) { %s }`
	for _, x := range []struct{ dir, call, what string }{
		{"live", "in.Push(1)", "engine.Input.Push"},
		{"live", "s.Timers[0].Expire(1)", "engine.TimerQueue.Expire"},
		{"live", "q.Expire(1)", "engine.TimerQueue.Expire"},
		{"live", "defer q.Expire(1)", "engine.TimerQueue.Expire"},
		{"live", "f := q.Expire; f(1)", "engine.TimerQueue.Expire"},
		{"live", "n.Push(nil)", "engine.Node.Push"},
		{"simulate", "n.One(1)", "engine.Node.One"},
		{"simulate", "k.One(1, 1, 0)", "engine.KeyedNode.One"},
		{"logdriven", "k.Push(nil)", "engine.KeyedNode.Push"},
		{"logdriven", "engine.PushBlocks(n, nil)", "engine.PushBlocks"},
		{"live", "s.Step(nil)", "engine.Location.Step"},
		{"port", "n.One(1)", "engine.Node.One"},
		{"port", "in.Push(1)", "engine.Input.Push"},
		{"operators", "in.Push(1)", "engine.Input.Push"},
		{"operators", "s.Step(nil)", "engine.Location.Step"},
	} {
		found := slices.ContainsFunc(stepCalls(t, "internal/engine/"+x.dir, fmt.Sprintf(drivers, x.call)), func(c stepCall) bool {
			return c.fn == "planted" && c.what == x.what && !c.allowed()
		})
		if !found {
			t.Errorf("%s in %s is not found", x.call, x.dir)
		}
	}
	for _, call := range []string{"s.fireUntil(1)", "s.Starts.run()"} {
		text := "func planted(s *Location) { " + call + " }"
		if !slices.ContainsFunc(stepCalls(t, "internal/engine", text), func(c stepCall) bool { return c.fn == "planted" && !c.allowed() }) {
			t.Errorf("%s in the engine is not found", call)
		}
	}
}

// stepCalls returns the calls in a package of the engine. If planted is not empty, it is the text
// of an additional file.
func stepCalls(t *testing.T, dir, planted string) (all []stepCall) {
	t.Helper()
	full := filepath.Join("..", "..", filepath.FromSlash(dir))
	names, err := filepath.Glob(filepath.Join(full, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	parse := func(name string, text any) {
		f, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	for _, name := range names {
		if ok, err := build.Default.MatchFile(full, filepath.Base(name)); err != nil || !ok || strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		parse(filepath.Base(name), text)
	}
	if planted != "" {
		parse("planted.go", "package "+files[0].Name.Name+"\n"+planted)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object), Selections: make(map[*ast.SelectorExpr]*types.Selection)}
	conf := types.Config{Importer: compiled.Importer(t, module+dir)}
	if _, err := conf.Check(module+dir, fset, files, info); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			assigned := make(map[ast.Expr]bool)
			ast.Inspect(fn, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt: // setting a field does not call it
					for _, x := range n.Lhs {
						assigned[x] = true
					}
				case *ast.SelectorExpr:
					what := stepWhat(info, n)
					if stepping[what] == nil || assigned[n] {
						return true
					}
					at := fset.Position(n.Pos())
					all = append(all, stepCall{
						what: what, fn: fn.Name.Name, at: fmt.Sprintf("%s/%s:%d", dir, at.Filename, at.Line),
						file: strings.TrimPrefix(path.Join(dir, at.Filename), "internal/engine/"),
					})
				case *ast.Ident:
					if f, ok := info.Uses[n].(*types.Func); ok && f.Signature().Recv() == nil && dir == "internal/engine" {
						if what := "engine." + f.Name(); f.Pkg() != nil && f.Pkg().Path() == enginePackage && stepping[what] != nil {
							at := fset.Position(n.Pos())
							all = append(all, stepCall{what: what, fn: fn.Name.Name, at: fmt.Sprintf("%s/%s:%d", dir, at.Filename, at.Line), file: at.Filename})
						}
					}
				}
				return true
			})
		}
	}
	return all
}

// stepWhat returns what a selector names, as package, type and name. A method that implements an
// interface of the engine counts as that of the interface.
func stepWhat(info *types.Info, sel *ast.SelectorExpr) string {
	s := info.Selections[sel]
	if s == nil {
		if f, ok := info.Uses[sel.Sel].(*types.Func); ok && f.Pkg().Path() == enginePackage {
			return "engine." + f.Name()
		}
		return ""
	}
	switch o := s.Obj().(type) {
	case *types.Func:
		sig := o.Signature()
		switch params := sig.Params(); {
		case o.Name() == "Expire" && params.Len() == 1:
			return "engine.TimerQueue.Expire"
		case o.Name() == "Push" && params.Len() == 1 && types.Identical(params.At(0).Type(), types.Typ[types.Int]):
			return "engine.Input.Push"
		}
		if tn := named(sig.Recv().Type()); tn != nil && tn.Pkg() != nil && tn.Pkg().Path() == enginePackage {
			return "engine." + tn.Name() + "." + o.Name()
		}
	case *types.Var:
		if o.Pkg() == nil || o.Pkg().Path() != enginePackage {
			return ""
		}
		owner := s.Recv()
		for _, i := range s.Index() {
			if p, ok := owner.Underlying().(*types.Pointer); ok {
				owner = p.Elem()
			}
			if f := owner.Underlying().(*types.Struct).Field(i); f.Name() == o.Name() {
				break
			} else {
				owner = f.Type()
			}
		}
		if tn := named(owner); tn != nil {
			return "engine." + tn.Name() + "." + o.Name()
		}
	}
	return ""
}
