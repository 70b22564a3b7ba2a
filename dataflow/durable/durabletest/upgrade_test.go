package durabletest_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/durabletest"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// TestUpgrade is an example of a program's own test: its shape file is in the repository.
func TestUpgrade(t *testing.T) { durabletest.Upgrade(t, build, filepath.Join("testdata", "shape.txt")) }

// A failing is a test that records why it failed.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}
func (f *failing) Errorf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
}
func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	panic(f)
}

func upgrade(t testing.TB, build func(*dataflow.Flow) Ports, file string) string {
	f := &failing{TB: t}
	func() {
		defer func() {
			if v := recover(); v != nil && v != any(f) {
				panic(v)
			}
		}()
		durabletest.Upgrade(f, build, file)
	}()
	return f.said
}

// keyedVotes is the stream of the program's input.
type keyedVotes = dataflow.KeyedStream[string, bool, Server, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]

// TestUpgradeChanged changes a program: Upgrade fails, and its error says what the change needs.
func TestUpgradeChanged(t *testing.T) {
	program := func(change func(keyedVotes) keyedVotes, limit string, more bool) func(*dataflow.Flow) Ports {
		return func(flow *dataflow.Flow) Ports {
			votes, cast := keyedstream.Input[string, bool](dataflow.At[Server](flow), "votes")
			cast = change(cast)
			passed := keyedstream.FoldEarlyStop(cast, func() int { return 0 }, func(n *int, _ bool) bool { *n++; return *n == 3 })
			if limit != "" {
				passed = dataflow.Named(limit, passed)
			}
			if more {
				keyedsingleton.Output(keyedstream.First(cast), "first")
			}
			return Ports{votes, keyedsingleton.Output(passed, "passed")}
		}
	}
	same := func(v keyedVotes) keyedVotes { return v }
	filter := func(v keyedVotes) keyedVotes {
		return keyedstream.Map(keyedstream.Filter(v, func(yes bool) bool { return yes }), func(yes bool) bool { return !yes })
	}
	file := filepath.Join("testdata", "shape.txt")
	for name, test := range map[string]struct {
		build func(*dataflow.Flow) Ports
		want  []string
	}{
		"stateless operators": {program(filter, "", false), nil},
		"an output more":      {program(same, "", true), []string{"its histories go on", "is new, and begins with nothing"}},
		"a name":              {program(same, "tally", false), []string{"lose state", `durable.Was("tally", "keyedstream.FoldEarlyStop[`, `durable.Drop("keyedstream.FoldEarlyStop[`}},
	} {
		said := upgrade(t, test.build, file)
		if len(test.want) == 0 && said != "" {
			t.Errorf("%s: %s", name, said)
		}
		for _, want := range test.want {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %q, want %q in it", name, said, want)
			}
		}
	}
	if said := upgrade(t, build, filepath.Join(t.TempDir(), "none.txt")); !strings.Contains(said, "-durabletest.update") {
		t.Errorf("without a file: %q", said)
	}
}

// ExampleUpgrade is a test of a program whose shape was written before.
func ExampleUpgrade() {
	test := func(t *testing.T) {
		durabletest.Upgrade(t, build, "testdata/shape.txt")
	}
	_ = test // it would be func TestUpgrade(t *testing.T)
}
