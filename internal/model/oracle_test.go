package model

import (
	"go/types"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/compiled"
)

// notInOracle lists the exported operators that programs of the model do not use, with the
// reason.
var notInOracle = map[string]string{
	"keyedstream.CallingMachine": "what it is answered, and when, is for a caller to say; TestMachineSurvives of durabletest and TestPayments of keyedstream try it",
	"keyedsingleton.InputWithin": "what it refuses depends on what it has forgotten, which a sender of the model does not know; TestRetainedOverRestarts of durable and TestInputWithin of keyedsingleton try it",
}

// collections are the types of package dataflow that operators return.
var collections = []string{"Stream", "KeyedStream", "KeyedSingleton", "Singleton", "Optional"}

// TestOracle checks that the model draws every exported operator. An operator that is not
// drawn has no oracle: no test compares its results with the model or checks that it saves
// its state.
func TestOracle(t *testing.T) {
	drawn := make(map[string]bool)
	for _, op := range operators() {
		for _, name := range append(op.also, strings.Split(op.name, " of ")...) {
			name, _, _ = strings.Cut(name, ",")
			drawn[name] = true
		}
	}
	exported := exportedOperators(t)
	if len(exported) < 100 {
		t.Fatalf("only %d operators", len(exported))
	}
	for name, collection := range exported {
		reason, excused := notInOracle[name]
		switch {
		case collection && !drawn[name] && reason == "":
			t.Errorf("%s is not drawn by the model: add it to operators, or to notInOracle with a reason", name)
		case drawn[name] && excused:
			t.Errorf("%s is drawn by the model, and stands in notInOracle", name)
		}
	}
	for name := range notInOracle {
		if !exported[name] {
			t.Errorf("%s stands in notInOracle and is no operator", name)
		}
	}
	for name := range drawn {
		if _, ok := exported[name]; !ok {
			t.Errorf("the model draws %s, which is no exported function", name)
		}
	}
}

// exportedOperators maps each exported function of the operators' packages to whether it
// returns a collection.
func exportedOperators(t *testing.T) map[string]bool {
	t.Helper()
	const module = "github.com/millrace/millrace/"
	packages := []string{"dataflow", "keyedstream", "keyedsingleton", "singleton", "optional", "slice"}
	var paths []string
	for _, p := range packages {
		paths = append(paths, module+p)
	}
	imp := compiled.Importer(t, paths...)
	all := make(map[string]bool)
	for _, p := range packages {
		pkg, err := imp.Import(module + p)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range pkg.Scope().Names() {
			if f, ok := pkg.Scope().Lookup(name).(*types.Func); ok && f.Exported() {
				results := f.Signature().Results()
				all[p+"."+name] = false
				for v := range results.Variables() {
					all[p+"."+name] = all[p+"."+name] || isCollection(v.Type())
				}
			}
		}
	}
	return all
}

// isCollection reports whether a type is a collection, a slice of collections, or a type
// parameter that a collection can satisfy.
func isCollection(t types.Type) bool {
	switch t := types.Unalias(t).(type) {
	case *types.Slice:
		return isCollection(t.Elem())
	case *types.TypeParam:
		n, ok := types.Unalias(t.Constraint()).(*types.Named)
		return ok && n.Obj().Name() == "Versioned"
	case *types.Named:
		for _, name := range collections {
			if t.Obj().Name() == name && t.Obj().Pkg().Name() == "dataflow" {
				return true
			}
		}
	}
	return false
}
