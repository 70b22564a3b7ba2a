package model

import (
	"context"
	"flag"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/identity"
)

var updateIdentities = flag.Bool("identities.update", false, "write testdata/identities.txt")

// TestIdentities compares the texts that identify operators with state in a history with those of
// testdata/identities.txt. They are from programs with each operator of the generator, and from the
// flows by hand.
func TestIdentities(t *testing.T) {
	is := make(map[string]bool)
	note := func(g *engine.Graph) {
		g.Start(canceled)
		for _, s := range g.Locations {
			for _, o := range identity.Of(s).Operators {
				if text, _, ok := strings.Cut(o.Identity, "]@{"); ok && len(o.Keeps) > 0 {
					is[text+"]"] = true
				}
			}
		}
	}
	table := durables()
	for i := range table {
		for n := range 8 {
			p, _ := makeOf(table, rand.New(rand.NewPCG(uint64(i), uint64(n))), 8, i)
			f := newLed(dataflow.Options{}, durable.CBOR(), func([]byte) error { return nil })
			build(context.Background(), p, f, func(int) bool { return true }).outputs()
			note(graphOf(f))
		}
	}
	for name := range byHand {
		f := newLed(dataflow.Options{}, durable.CBOR(), func([]byte) error { return nil })
		flowByHand(name)(f, func(string) {})
		note(graphOf(f))
	}
	file := filepath.Join("testdata", "identities.txt")
	if *updateIdentities {
		text := strings.Join(slices.Sorted(maps.Keys(is)), "\n") + "\n"
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]bool)
	for line := range strings.Lines(string(data)) {
		want[strings.TrimSuffix(line, "\n")] = true
	}
	for text := range want {
		if !is[text] {
			t.Errorf("no operator is known as %s now, so histories with it are refused: if its function was renamed, add its name before to the alias table, identity.renamed; if it keeps something else, have it keep what it kept, or tell users to name it", text)
		}
	}
	for text := range is {
		if !want[text] {
			t.Errorf("%s is not in %s: if the operator is new, write it with go test ./internal/model -run TestIdentities -identities.update", text, file)
		}
	}
}
