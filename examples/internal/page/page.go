// Package page keeps the picture on the page of an example true.
package page

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
)

var update = flag.Bool("picture.update", false, "write the picture of the flow into README.md")

// What a picture is between.
const begins, ends = "\n```mermaid\n", "```\n"

// Picture compares the picture in the README.md of the test's folder with the flow that build
// makes. The picture is what [dataflow.Graph.Mermaid] returns, without the places of operators.
// With the flag -picture.update it is written instead.
func Picture(t testing.TB, build func(flow *dataflow.Flow)) {
	t.Helper()
	flow := dataflow.New()
	build(flow)
	var picture strings.Builder
	for line := range strings.Lines(flow.Graph().Mermaid()) {
		if !strings.HasPrefix(strings.TrimSpace(line), "%%") {
			picture.WriteString(line)
		}
	}
	const name = "README.md"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begins)
	shown, after, closed := strings.Cut(rest, ends)
	if !found || !closed {
		t.Fatalf("%s has no picture: make room for one between %q and %q", name, begins, ends)
	}
	if shown == picture.String() {
		return
	}
	if !*update {
		t.Fatalf("the picture in %s is not that of the flow: look at it, and run the test with -picture.update", name)
	}
	if err := os.WriteFile(name, []byte(before+begins+picture.String()+ends+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
