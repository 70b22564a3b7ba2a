package dataflow_test

import (
	"context"
	"go/ast"
	"io"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
)

// TestZeroValues calls every exported method of every type of the package on a zero value, or on
// nil if the type is used by pointer. A method must work as documented or panic with a message of
// the library and the caller's line. The types with methods are read from the source, so that
// none is forgotten.
func TestZeroValues(t *testing.T) {
	type loop = dataflow.Loop[int, server, dataflow.NoOrder]
	// A zero value for which unmade is true cannot be used.
	tests := map[string]struct {
		zero   any
		unmade bool
	}{
		"App": {new(dataflow.App), true}, "Flow": {new(dataflow.Flow), true}, "Loop": {new(loop), true},
		"SharedInputPort": {new(dataflow.SharedInputPort[int]), true}, "SharedKeyedInputPort": {new(dataflow.SharedKeyedInputPort[int, int]), true},
		"SenderInputPort": {new(dataflow.SenderInputPort[int, int]), true}, "Sender": {new(dataflow.Sender[int, int]), true},
		"InputPort": {new(dataflow.InputPort[int]), true}, "KeyedInputPort": {new(dataflow.KeyedInputPort[int, int]), true},
		"EntryInputPort": {new(dataflow.EntryInputPort[int, int]), true}, "OutputPort": {new(dataflow.OutputPort[int]), true},
		"EntryOutputPort":     {new(dataflow.EntryOutputPort[int, int]), true},
		"SingletonOutputPort": {new(dataflow.SingletonOutputPort[int]), true},
		"OptionalOutputPort":  {new(dataflow.OptionalOutputPort[int]), true},
		"Batch":               {dataflow.Batch[int]{}, true},
		"Delivery":            {dataflow.Delivery[int]{}, true},
		"Recording":           {new(dataflow.Recording), false}, "Recorder": {new(dataflow.Recorder), true}, "View": {dataflow.View[int, int]{}, false},
		"Entry": {dataflow.Entry[int, int]{}, false}, "Position": {dataflow.Position{}, false}, "Pair": {dataflow.Pair[int, int]{}, false},
		"Maybe": {dataflow.Maybe[int]{}, false}, "Change": {dataflow.Change[int]{}, false}, "Failure": {dataflow.Failure[int]{}, false},
		"Graph": {dataflow.Graph{}, false}, "StepError": {new(dataflow.StepError), false},
		"KeyError": {new(dataflow.KeyError), false}, "BlockedError": {new(dataflow.BlockedError), false},
	}
	words := regexp.MustCompile(`^dataflow: \w+: the value used at [a-z_]+\.(go|s):\d+ is nil or a zero value: `)
	for name, test := range tests {
		values := []reflect.Value{reflect.ValueOf(test.zero)}
		if v := values[0]; v.Kind() == reflect.Pointer && !strings.HasSuffix(name, "Error") {
			values = append(values, reflect.Zero(v.Type()))
		}
		for _, v := range values {
			for i := range v.NumMethod() {
				m := v.Type().Method(i)
				var args []reflect.Value
				for j := range v.Method(i).Type().NumIn() {
					in := v.Method(i).Type().In(j)
					switch in {
					case reflect.TypeFor[context.Context]():
						args = append(args, reflect.ValueOf(t.Context()))
					case reflect.TypeFor[io.Writer]():
						args = append(args, reflect.ValueOf(io.Discard))
					default:
						args = append(args, reflect.Zero(in))
					}
				}
				isNil := v.Kind() == reflect.Pointer && v.IsNil()
				got := panicked(func() { v.Method(i).Call(args) })
				if want := test.unmade || isNil; want != words.MatchString(got) || !want && got != "no panic" {
					t.Errorf("%s.%s of a value that is nil %t: %s", name, m.Name, isNil, got)
				}
			}
		}
	}
	for _, name := range typesWithMethods(t) {
		if _, ok := tests[name]; !ok {
			t.Errorf("%s has methods and is not tried: add it to this test", name)
		}
	}

	// Functions that take a flow.
	for what, call := range map[string]func(f *dataflow.Flow){
		"At": func(f *dataflow.Flow) { dataflow.At[server](f) }, "Members": func(f *dataflow.Flow) { dataflow.Members[server](f, 2) },
		"Start": func(f *dataflow.Flow) { dataflow.Start(t.Context(), f) }, "Run": func(f *dataflow.Flow) { dataflow.Run(t.Context(), f) },
	} {
		for _, f := range []*dataflow.Flow{nil, {}} {
			if got := panicked(func() { call(f) }); !regexp.MustCompile(`^dataflow: Flow: the value used at zero_test.go:\d+ is nil or a zero value: make a flow with dataflow.New$`).MatchString(got) {
				t.Errorf("%s: %s", what, got)
			}
		}
	}

	// The panic names the line of the call.
	var p dataflow.InputPort[int]
	if got := panicked(func() { p.Send(t.Context(), 1) }); !strings.Contains(got, "zero_test.go:") {
		t.Error(got)
	}
}

// typesWithMethods returns the exported types of the package that have exported methods.
func typesWithMethods(t *testing.T) (all []string) {
	t.Helper()
	for _, file := range sources(t, ".") {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || !f.Name.IsExported() {
				continue
			}
			ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					if id.IsExported() && id.Name != "K" && len(id.Name) > 1 {
						all = append(all, id.Name)
					}
					return false
				}
				return true
			})
		}
	}
	if len(all) < 20 {
		t.Fatalf("only %d methods were found", len(all))
	}
	return all
}
