package durabletest

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/internal/engine/identity"
)

var updateFlag = flag.Bool("durabletest.update", false, "have durabletest.Upgrade write the shape of the program to its file")

// shapeHead is the first line of a shape file.
const shapeHead = "# What a history depends on of this program; see durabletest.Upgrade.\n"

// Upgrade compares a program with an earlier version whose shape is in a file, such as testdata/shape.txt. The
// shape is the operators by which a history identifies the program, with the types that they take and keep. If
// something has changed, the test fails with the most serious change. The message says whether a history of the
// earlier program goes on with this one as it is, needs a line in [durable.Options].Upgrade, or loses
// something. With the flag -durabletest.update the file is written instead. Commit it, so that reviews show
// what changes.
//
// The program is built with the codec of [durable.CBOR].
func Upgrade[P any](t testing.TB, build func(*dataflow.Flow) P, file string) {
	t.Helper()
	flow, graph := newLogDriven(durable.Options{}, durable.CBOR())
	build(flow)
	if !graph.Start(t.Context()) {
		t.Fatalf("durabletest.Upgrade: the flow was started")
	}
	var is []*identity.Shape
	var text strings.Builder
	text.WriteString(shapeHead)
	for _, s := range graph.Locations {
		shape := identity.Of(s)
		is = append(is, shape)
		text.WriteString(shape.String())
	}
	if *updateFlag {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o777), os.WriteFile(file, []byte(text.String()), 0o666)); err != nil {
			t.Fatalf("durabletest.Upgrade: %v", err)
		}
		return
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("durabletest.Upgrade: there is no %s: write it with go test -durabletest.update", file)
	}
	if err != nil {
		t.Fatalf("durabletest.Upgrade: %v", err)
	}
	was, err := identity.Parse(string(data))
	if err != nil {
		t.Fatalf("durabletest.Upgrade: %s: %v", file, err)
	}
	changes := changesOf(was, is)
	if len(changes) == 0 {
		if string(data) != text.String() {
			t.Errorf("durabletest.Upgrade: %s lists the same in another way: write it with go test -durabletest.update", file)
		}
		return
	}
	first := changes[0]
	for _, x := range changes {
		if x.Requirement > first.Requirement {
			first = x
		}
	}
	others := ""
	if n := len(changes) - 1; n > 0 {
		others = fmt.Sprintf("; %d changes more", n)
	}
	t.Errorf("durabletest.Upgrade: %s: %s: %v%s; if that is meant, write %s with go test -durabletest.update", file, verdicts[first.Requirement], first, others, file)
}

// verdicts describe verdicts in words.
var verdicts = [...]string{
	identity.Allowed:   "the program has changed, and its histories go on",
	identity.NeedsLine: "the program has changed, and its histories need a line in durable.Options.Upgrade",
	identity.Loses:     "the program has changed, and its histories lose state",
	identity.Refused:   "the program has changed, and its histories cannot go on",
}

// changesOf compares the locations of two programs.
func changesOf(was, is []*identity.Shape) (all []identity.Change) {
	for i := range max(len(was), len(is)) {
		if i >= len(was) || i >= len(is) || was[i].Location != is[i].Location {
			name := "the end"
			if i < len(is) {
				name = is[i].Location
			}
			return append(all, identity.Change{
				Location: name, Requirement: identity.Refused, What: fmt.Sprintf("there were %d locations and there are %d, or they have other names: those of a history are fixed", len(was), len(is)),
			})
		}
		all = append(all, identity.NextOf(was[i], is[i])...)
	}
	return all
}
