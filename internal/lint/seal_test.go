package lint

import (
	"strings"
	"testing"
)

// TestSeal checks that each package uses package seal in only one file, node.go, so that the
// places where a collection's promises are made are easy to find.
func TestSeal(t *testing.T) {
	used := 0
	for _, f := range sources(t) {
		for _, spec := range f.Imports {
			if strings.Trim(spec.Path.Value, `"`) != module+"internal/seal" {
				continue
			}
			used++
			if f.path == "internal/engine/codec/view.go" { // only the sealed part of a view can be encoded
				continue
			}
			if f.path == "internal/engine/collection.go" { // a collection returns its node here
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
