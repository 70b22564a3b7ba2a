package lint

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// layers lists the packages of the engine that each package of the engine may import outside its
// tests. Imports only go down: the packages that run a graph import no operator and no port, and
// the packages that a flow is built from import nothing that runs it.
var layers = map[string][]string{
	"internal/engine/callsite":  {},
	"internal/engine/codec":     {},
	"internal/engine/token":     {},
	"internal/engine/mark":      {},
	"internal/engine":           {"internal/engine/callsite", "internal/engine/codec", "internal/engine/mark", "internal/engine/token"},
	"internal/engine/lookup":    {"internal/engine", "internal/engine/codec"},
	"internal/engine/claims":    {"internal/engine"},
	"internal/engine/state":     {"internal/engine", "internal/engine/codec", "internal/engine/mark"},
	"internal/engine/machines":  {"internal/engine", "internal/engine/codec", "internal/engine/port", "internal/engine/state"},
	"internal/engine/operators": {"internal/engine", "internal/engine/codec", "internal/engine/state"},
	"internal/engine/windows":   {"internal/engine", "internal/engine/codec", "internal/engine/mark", "internal/engine/state"},
	"internal/engine/port":      {"internal/engine", "internal/engine/codec", "internal/engine/state", "internal/engine/token"},
	"internal/engine/live":      {"internal/engine", "internal/engine/token"},
	"internal/engine/simulate":  {"internal/engine", "internal/engine/token"},
	"internal/engine/identity":  {"internal/engine"},
	"internal/engine/logdriven": {"internal/engine", "internal/engine/codec", "internal/engine/identity", "internal/engine/state", "internal/engine/token"},
}

// inEngine reports whether a folder or package belongs to the engine.
func inEngine(path string) bool {
	return path == "internal/engine" || strings.HasPrefix(path, "internal/engine/")
}

// TestLayers keeps the packages of the engine in layers, and requires that each entry of the
// table is needed.
func TestLayers(t *testing.T) {
	needed := make(map[string]map[string]bool)
	for _, f := range sources(t) {
		if f.test || !inEngine(f.dir) {
			continue
		}
		if _, ok := layers[f.dir]; !ok {
			t.Errorf("%s: %s is no layer of the engine: see the table in this test", f.path, f.dir)
		}
		if needed[f.dir] == nil {
			needed[f.dir] = make(map[string]bool)
		}
		for _, spec := range f.Imports {
			p, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module)
			if !ok || !inEngine(p) {
				continue
			}
			needed[f.dir][p] = true
			if !slices.Contains(layers[f.dir], p) {
				t.Errorf("%s imports %s, which is no layer below it: see the table in this test", f.path, p)
			}
		}
	}
	for dir, all := range layers {
		if needed[dir] == nil {
			t.Errorf("there is no package %s", dir)
		}
		for _, p := range all {
			if !needed[dir][p] {
				t.Errorf("nothing in %s imports %s: take it out of the table", dir, p)
			}
		}
	}
	// Place each package after all packages that it may import.
	placed := make(map[string]bool)
	for len(placed) < len(layers) {
		next := slices.DeleteFunc(slices.Sorted(maps.Keys(layers)), func(p string) bool {
			return placed[p] || slices.ContainsFunc(layers[p], func(q string) bool { return !placed[q] })
		})
		if len(next) == 0 {
			t.Fatal("the table has a circle")
		}
		for _, p := range next {
			placed[p] = true
		}
	}
}

// mostFiles limits the number of files of a folder of the engine, without tests. A folder with
// more has a second subject.
const mostFiles = 22

// TestFolders keeps the folders of the engine small.
func TestFolders(t *testing.T) {
	files := make(map[string]int)
	for _, f := range sources(t) {
		if !f.test && inEngine(f.dir) {
			files[f.dir]++
		}
	}
	for dir, n := range files {
		if n > mostFiles {
			t.Errorf("%s has %d files, more than %d: what is its second subject?", dir, n, mostFiles)
		}
	}
	if len(files) < 5 {
		t.Errorf("only %d folders were seen: the rule looks at the wrong place", len(files))
	}
}
