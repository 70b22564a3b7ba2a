package lint

import (
	"strings"
	"testing"
)

// TestSeal wants package seal used in one file of each package, node.go: whoever looks
// for the places at which a collection's promises are made has few files to read.
func TestSeal(t *testing.T) {
	used := 0
	for _, f := range sources(t) {
		for _, spec := range f.Imports {
			if strings.Trim(spec.Path.Value, `"`) != module+"internal/seal" {
				continue
			}
			used++
			if f.path == "internal/engine/codec/view.go" { // of a view only what is in the seal can be encoded
				continue
			}
			if f.path == "internal/engine/collection.go" { // where a collection gives its node
				continue
			}
			if f.name != "node.go" && f.name != "node_test.go" {
				t.Errorf("%s imports internal/seal: only node.go does", f.path)
			}
		}
	}
	if used < 10 {
		t.Errorf("only %d files import internal/seal: the rule looks at the wrong place", used)
	}
}
