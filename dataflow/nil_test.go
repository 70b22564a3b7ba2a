package dataflow_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
)

type (
	pureTurn    = keyedstream.Turn[int, int, int]
	timedTurn   = keyedstream.TimedTurn[int, int, int]
	callingTurn = keyedstream.CallingTurn[int, int, int, int]
)

// TestNilFunctions passes nil for each function parameter of each operator. The build panics and
// names the operator, the user's line and the type of the missing function. The operators and their
// functions are read from the source, so that none is forgotten.
func TestNilFunctions(t *testing.T) {
	flow := dataflow.New()
	at := dataflow.At[server](flow)
	_, s := dataflow.Input[int](at, "s")
	_, ks := keyedstream.Input[int, int](at, "ks")
	_, es := keyedsingleton.Input[int, int](at, "es")
	one := dataflow.Count(s)
	opt := dataflow.Min(s)
	zero := func() int { return 0 }
	add := func(acc *int, x int) { *acc += x }
	nothing := dataflow.Proof(why)
	called := func(*int, int, *callingTurn) {}
	rang := func(*int, keyedstream.Timer, *callingTurn) {}
	ask := func(context.Context, keyedstream.Call[int, int]) int { return 0 }
	answered := func(*int, int, int, *callingTurn) {}
	calls := keyedstream.Calling(ask, answered, keyedstream.CallOptions{})
	tests := map[string]func(){
		"dataflow.Local build":                 func() { dataflow.Local(nil) },
		"dataflow.EachState do":                func() { dataflow.EachState[int, int](t.Context(), nil, dataflow.StatePlace{}, 1, nil) },
		"dataflow.StateOf do":                  func() { dataflow.StateOf[int, int](t.Context(), nil, 1, nil) },
		"dataflow.StatesOf do":                 func() { dataflow.StatesOf[int, int](t.Context(), nil, []int{1}, nil) },
		"dataflow.Map f":                       func() { dataflow.Map[int, int](s, nil) },
		"dataflow.MapRef f":                    func() { dataflow.MapRef[int, int](s, nil) },
		"dataflow.Filter keep":                 func() { dataflow.Filter(s, nil) },
		"dataflow.FilterMap f":                 func() { dataflow.FilterMap[int, int](s, nil) },
		"dataflow.FlatMap f":                   func() { dataflow.FlatMap[int, int](s, nil) },
		"dataflow.Inspect f":                   func() { dataflow.Inspect(s, nil) },
		"dataflow.ForEach f":                   func() { dataflow.ForEach(s, nil) },
		"dataflow.KeyBy key":                   func() { dataflow.KeyBy[int, int](s, nil) },
		"dataflow.KeyByRef key":                func() { dataflow.KeyByRef[int, int](s, nil) },
		"dataflow.Fold init":                   func() { dataflow.Fold(s, nil, add) },
		"dataflow.Fold step":                   func() { dataflow.Fold(s, zero, nil) },
		"dataflow.FoldGrowing init":            func() { dataflow.FoldGrowing(s, nil, add, nothing) },
		"dataflow.FoldGrowing step":            func() { dataflow.FoldGrowing(s, zero, nil, nothing) },
		"dataflow.FoldCommutative init":        func() { dataflow.FoldCommutative(s, nil, add, nothing) },
		"dataflow.FoldCommutative step":        func() { dataflow.FoldCommutative(s, zero, nil, nothing) },
		"dataflow.FoldCommutativeGrowing init": func() { dataflow.FoldCommutativeGrowing(s, nil, add, nothing) },
		"dataflow.FoldCommutativeGrowing step": func() { dataflow.FoldCommutativeGrowing(s, zero, nil, nothing) },
		"dataflow.Reduce step":                 func() { dataflow.Reduce(s, nil) },
		"dataflow.Scan init":                   func() { dataflow.Scan(s, nil, func(*int, int, func(int)) {}) },
		"dataflow.Scan step":                   func() { dataflow.Scan[int, int, int](s, zero, nil) },
		"dataflow.Partition pred":              func() { dataflow.Partition(s, nil) },
		"dataflow.TryMap f":                    func() { dataflow.TryMap[int, int](s, nil) },

		"keyedstream.Map f":                       func() { keyedstream.Map[int, int, int](ks, nil) },
		"keyedstream.MapWithKey f":                func() { keyedstream.MapWithKey[int, int, int](ks, nil) },
		"keyedstream.Filter keep":                 func() { keyedstream.Filter(ks, nil) },
		"keyedstream.FilterWithKey keep":          func() { keyedstream.FilterWithKey(ks, nil) },
		"keyedstream.FilterMap f":                 func() { keyedstream.FilterMap[int, int, int](ks, nil) },
		"keyedstream.FilterMapWithKey f":          func() { keyedstream.FilterMapWithKey[int, int, int](ks, nil) },
		"keyedstream.Inspect f":                   func() { keyedstream.Inspect(ks, nil) },
		"keyedstream.InspectWithKey f":            func() { keyedstream.InspectWithKey(ks, nil) },
		"keyedstream.FlatMap f":                   func() { keyedstream.FlatMap[int, int, int](ks, nil) },
		"keyedstream.Rekey f":                     func() { keyedstream.Rekey[int, int, int](ks, nil) },
		"keyedstream.PrefixKey f":                 func() { keyedstream.PrefixKey[int, int, int](ks, nil) },
		"keyedstream.Partition pred":              func() { keyedstream.Partition(ks, nil) },
		"keyedstream.TryMap f":                    func() { keyedstream.TryMap[int, int, int](ks, nil) },
		"keyedstream.Fold init":                   func() { keyedstream.Fold(ks, nil, add) },
		"keyedstream.Fold step":                   func() { keyedstream.Fold(ks, zero, nil) },
		"keyedstream.FoldGrowing init":            func() { keyedstream.FoldGrowing(ks, nil, add, nothing) },
		"keyedstream.FoldGrowing step":            func() { keyedstream.FoldGrowing(ks, zero, nil, nothing) },
		"keyedstream.FoldCommutative init":        func() { keyedstream.FoldCommutative(ks, nil, add, nothing) },
		"keyedstream.FoldCommutative step":        func() { keyedstream.FoldCommutative(ks, zero, nil, nothing) },
		"keyedstream.FoldCommutativeGrowing init": func() { keyedstream.FoldCommutativeGrowing(ks, nil, add, nothing) },
		"keyedstream.FoldCommutativeGrowing step": func() { keyedstream.FoldCommutativeGrowing(ks, zero, nil, nothing) },
		"keyedstream.SortFunc compare": func() {
			keyedstream.SortFunc(dataflow.KeyBy(dataflow.Of(at, 1), func(x int) int { return x }), nil, nothing)
		},
		"keyedstream.Reduce step":        func() { keyedstream.Reduce(ks, nil) },
		"keyedstream.FoldEarlyStop init": func() { keyedstream.FoldEarlyStop(ks, nil, func(*int, int) bool { return true }) },
		"keyedstream.FoldEarlyStop step": func() { keyedstream.FoldEarlyStop(ks, zero, nil) },
		"keyedstream.FoldEarlyStopWithin init": func() {
			keyedstream.FoldEarlyStopWithin(ks, nil, func(*int, int) bool { return true }, keyedstream.Retain{Keys: 1}, why)
		},
		"keyedstream.FoldEarlyStopWithin step": func() {
			keyedstream.FoldEarlyStopWithin(ks, zero, nil, keyedstream.Retain{Keys: 1}, why)
		},
		"keyedstream.Scan init": func() { keyedstream.Scan(ks, nil, func(*int, int, func(int)) {}) },
		"keyedstream.Scan step": func() { keyedstream.Scan[int, int, int, int](ks, zero, nil) },
		"keyedstream.ScanFirst init": func() {
			keyedstream.ScanFirst(ks, nil, func(*int, int, func(int)) (int, bool) { return 0, true })
		},
		"keyedstream.ScanFirst step": func() { keyedstream.ScanFirst[int, int, int, int, int](ks, zero, nil) },
		"keyedstream.Machine init":   func() { keyedstream.Machine(ks, nil, func(*int, int, *pureTurn) {}) },
		"keyedstream.Machine step":   func() { keyedstream.Machine[int, int, int, int, int](ks, zero, nil) },
		"keyedstream.TimedMachine init": func() {
			keyedstream.TimedMachine(ks, nil, func(*int, int, *timedTurn) {}, func(*int, keyedstream.Timer, *timedTurn) {}, why)
		},
		"keyedstream.TimedMachine step": func() {
			keyedstream.TimedMachine[int, int](ks, zero, nil, func(*int, keyedstream.Timer, *timedTurn) {}, why)
		},
		"keyedstream.TimedMachine fire":   func() { keyedstream.TimedMachine(ks, zero, func(*int, int, *timedTurn) {}, nil, why) },
		"keyedstream.CallingMachine init": func() { keyedstream.CallingMachine(ks, nil, called, rang, calls, why) },
		"keyedstream.CallingMachine step": func() { keyedstream.CallingMachine[int, int](ks, zero, nil, rang, calls, why) },
		"keyedstream.CallingMachine fire": func() { keyedstream.CallingMachine(ks, zero, called, nil, calls, why) },
		"keyedstream.Calling call":        func() { keyedstream.Calling[int, int, int, int, int, int](nil, answered, keyedstream.CallOptions{}) },
		"keyedstream.Calling answer":      func() { keyedstream.Calling[int, int, int, int](ask, nil, keyedstream.CallOptions{}) },
		"dataflow.Sequenced number":       func() { dataflow.Sequenced[int, int](nil) },

		"keyedsingleton.Map f":              func() { keyedsingleton.Map[int, int, int](es, nil) },
		"keyedsingleton.MapWithKey f":       func() { keyedsingleton.MapWithKey[int, int, int](es, nil) },
		"keyedsingleton.Filter keep":        func() { keyedsingleton.Filter(es, nil) },
		"keyedsingleton.FilterWithKey keep": func() { keyedsingleton.FilterWithKey(es, nil) },
		"keyedsingleton.FilterMap f":        func() { keyedsingleton.FilterMap[int, int, int](es, nil) },
		"keyedsingleton.FilterMapWithKey f": func() { keyedsingleton.FilterMapWithKey[int, int, int](es, nil) },
		"keyedsingleton.Inspect f":          func() { keyedsingleton.Inspect(es, nil) },
		"keyedsingleton.InspectWithKey f":   func() { keyedsingleton.InspectWithKey(es, nil) },
		"keyedsingleton.TryMap f":           func() { keyedsingleton.TryMap[int, int, int](es, nil) },
		"keyedsingleton.MapAsync f": func() {
			keyedsingleton.MapAsync[int, int, int](es, nil, keyedsingleton.AsyncOptions{})
		},
		"keyedsingleton.MapAsyncWithKey f": func() {
			keyedsingleton.MapAsyncWithKey[int, int, int](es, nil, keyedsingleton.AsyncOptions{})
		},
		"keyedsingleton.TryAsync f": func() {
			keyedsingleton.TryAsync[int, int, int](es, nil, keyedsingleton.AsyncOptions{}, keyedsingleton.Backoff{})
		},
		"keyedsingleton.AfterEach delay": func() {
			var delay func(int) time.Duration
			keyedsingleton.AfterEach(es, delay, why)
		},

		"singleton.Map f":        func() { singleton.Map[int, int](one, nil) },
		"singleton.MapGrowing f": func() { singleton.MapGrowing[int, int](one, nil, nothing) },
		"singleton.Filter keep":  func() { singleton.Filter(one, nil) },
		"singleton.FilterMap f":  func() { singleton.FilterMap[int, int](one, nil) },

		"optional.Map f":       func() { optional.Map[int, int](opt, nil) },
		"optional.Filter keep": func() { optional.Filter(opt, nil) },
		"optional.FilterMap f": func() { optional.FilterMap[int, int](opt, nil) },
	}
	for name, build := range tests {
		op, _, _ := strings.Cut(name, " ")
		words := regexp.MustCompile("^" + strings.Replace(op, ".", ": ", 1) + `: the function given at nil_test.go:\d+ is nil: it is a func\(.*$`)
		if got := panicked(build); !words.MatchString(got) {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, name := range functions(t) {
		if tests[name] == nil {
			t.Errorf("%s is not tried: add it to this test", name)
		}
		delete(tests, name)
	}
	for name := range tests {
		t.Errorf("%s is tried, but there is none", name)
	}
}

// panicked returns what f panics with.
func panicked(f func()) (what string) {
	defer func() {
		if v := recover(); v != nil {
			what = fmt.Sprint(v)
		}
	}()
	f()
	return "no panic"
}

// sources returns the parsed files of a package, without its tests.
func sources(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// functions returns the function parameters of operators in the source: package, operator and parameter.
func functions(t *testing.T) (all []string) {
	t.Helper()
	for _, pkg := range []string{"dataflow", "keyedstream", "keyedsingleton", "singleton", "optional", "slice"} {
		for _, file := range sources(t, "../"+pkg) {
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Recv != nil || !f.Name.IsExported() {
					continue
				}
				for _, p := range f.Type.Params.List {
					if _, ok := p.Type.(*ast.FuncType); ok {
						for _, name := range p.Names {
							all = append(all, pkg+"."+f.Name.Name+" "+name.Name)
						}
					}
				}
			}
		}
	}
	if len(all) < 60 {
		t.Fatalf("only %d functions were found", len(all))
	}
	return all
}

// TestNilContext checks that every function with a context parameter refuses nil with a clear
// message, whether or not it would wait.
func TestNilContext(t *testing.T) {
	flow := dataflow.New()
	at := dataflow.At[server](flow)
	in, s := dataflow.Input[int](at, "s")
	keyed, _ := keyedstream.Input[int, int](at, "ks")
	shared, _ := dataflow.SharedInput[int](at, "shared")
	sharedKeyed, _ := keyedstream.SharedInput[int, int](at, "shared by key")
	senders, _ := dataflow.SenderInput[int, int](at, "senders")
	sender := senders.Sender(1)
	put, es := keyedsingleton.Input[int, int](at, "es")
	out, entries := dataflow.Output(s, "out"), keyedsingleton.Output(es, "entries")
	count, least := singleton.Output(dataflow.Count(s), "count"), optional.Output(dataflow.Min(s), "least")
	app := start(t, flow)
	var none context.Context
	for op, call := range map[string]func(){
		"Start": func() { dataflow.Start(none, dataflow.New()) }, "App.Stop": func() { app.Stop(none) },
		"InputPort.Send": func() { in.Send(none, 1) }, "InputPort.SendBatch": func() { in.SendBatch(none, nil) },
		"KeyedInputPort.Send": func() { keyed.Send(none, 1, 1) }, "EntryInputPort.Put": func() { put.Put(none, 1, 1) },
		"InputPort.SendNumbered": func() { in.SendNumbered(none, 1, 1) }, "InputPort.SendBatchNumbered": func() { in.SendBatchNumbered(none, 1, nil) },
		"KeyedInputPort.SendNumbered": func() { keyed.SendNumbered(none, 1, 1, 1) }, "EntryInputPort.PutNumbered": func() { put.PutNumbered(none, "", 1, 1, 1) },
		"SharedInputPort.Send": func() { shared.Send(none, 1) }, "SharedInputPort.SendBatch": func() { shared.SendBatch(none, nil) },
		"SharedInputPort.SendNumbered": func() { shared.SendNumbered(none, "", 1, 1) }, "SharedKeyedInputPort.Send": func() { sharedKeyed.Send(none, 1, 1) },
		"SharedKeyedInputPort.SendNumbered": func() { sharedKeyed.SendNumbered(none, "", 1, 1, 1) }, "Sender.Send": func() { sender.Send(none, 1) },
		"Sender.SendBatch": func() { sender.SendBatch(none, nil) }, "Sender.SendNumbered": func() { sender.SendNumbered(none, 1, 1) },
		"Sender.SendBatchNumbered": func() { sender.SendBatchNumbered(none, 1, nil) },
		"KeyedInputPort.SendBatch": func() { keyed.SendBatch(none, nil, nil) }, "KeyedInputPort.SendSeq": func() { keyed.SendSeq(none, nil) },
		"KeyedInputPort.SendBatchNumbered": func() { keyed.SendBatchNumbered(none, 1, nil, nil) }, "InputPort.SendSeq": func() { in.SendSeq(none, nil) },
		"SharedKeyedInputPort.SendBatch": func() { sharedKeyed.SendBatch(none, nil, nil) }, "EntryInputPort.PutBatch": func() { put.PutBatch(none, nil, nil) },
		"InputPort.SendBatchAt": func() { in.SendBatchAt(none, "", nil, nil) }, "SharedInputPort.SendBatchAt": func() { shared.SendBatchAt(none, "", nil, nil) },
		"KeyedInputPort.SendBatchAt": func() { keyed.SendBatchAt(none, "", nil, nil, nil) }, "Sender.SendBatchAt": func() { sender.SendBatchAt(none, nil, nil) },
		"SharedKeyedInputPort.SendBatchAt": func() { sharedKeyed.SendBatchAt(none, "", nil, nil, nil) },
		"OutputPort.Next":                  func() { out.Next(none) }, "OutputPort.All": func() { out.All(none) },
		"EntryOutputPort.Await": func() { entries.Await(none, 1) }, "EntryOutputPort.Take": func() { entries.Take(none, 1) },
		"EntryOutputPort.All":       func() { entries.All(none) },
		"SingletonOutputPort.Watch": func() { count.Watch(none) }, "OptionalOutputPort.Watch": func() { least.Watch(none) },
	} {
		words := regexp.MustCompile("^dataflow: " + op + `: the context given at nil_test.go:\d+ is nil: `)
		if got := panicked(call); !words.MatchString(got) {
			t.Errorf("%s: %s", op, got)
		}
	}
	if got := panicked(func() { dataflow.Run(none, dataflow.New()) }); !strings.HasPrefix(got, "dataflow: Start: the context given at nil_test.go:") {
		t.Errorf("Run: %s", got)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
