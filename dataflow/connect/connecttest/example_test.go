package connecttest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/dataflow/connect/connecttest"
	"github.com/millrace/millrace/dataflow/connect/file"
)

// A test of a connector calls Reader with a source whose content it knows. Here the source has two files of two lines: each file
// is a split, and each line a record.
func Example() {
	_ = func(t *testing.T) { // func TestLines(t *testing.T)
		connecttest.Reader(t, func(t *testing.T) connecttest.Source[struct{}, string] {
			dir := t.TempDir()
			monday, tuesday := filepath.Join(dir, "monday.log"), filepath.Join(dir, "tuesday.log")
			if err := os.WriteFile(monday, []byte("started\nstopped\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(tuesday, []byte("started again\nstopped again\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return connecttest.Source[struct{}, string]{
				Reader: file.Lines(filepath.Join(dir, "*.log"), file.Options{ByName: true}),
				Want:   map[string][]string{monday: {"started", "stopped"}, tuesday: {"started again", "stopped again"}},
			}
		})
	}
}
