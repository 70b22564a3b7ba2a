package file_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/file"
)

// TestCompressedIsUnfinished opens compressed files, identified by name, of which only a part was written. The error passes.
func TestCompressedIsUnfinished(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.gz")
	write(t, path, "text\nhello\n")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	field := func(r file.Row) (string, error) { return r.Field("text") }
	for name, r := range map[string]*file.Reader[string]{
		"csv":   file.CSV(path, field, file.Options{ByName: true}),
		"lines": file.Lines(path, file.Options{ByName: true}),
	} {
		for _, n := range []int{5, len(whole) / 2, len(whole) - 4} {
			if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			for _, after := range []uint64{0, 11} {
				c, err := r.Open(t.Context(), only(t, r), dataflow.Position{Major: after})
				if err == nil {
					c.Close() // Next returns the error
				} else if !connect.Passes(err) {
					t.Errorf("%s: %d of %d bytes, after %d: the error does not pass: %v", name, n, len(whole), after, err)
				}
			}
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		x := open(t, r, only(t, r), dataflow.Position{Major: 5})
		if err := x.read(t, 1); err != nil {
			t.Fatal(err)
		}
		x.is(t, "hello")
	}
}
