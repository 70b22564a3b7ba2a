package file_test

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect/file"
)

// TestJSONByteOrderMark checks that the byte order mark of a file does not make its first record a bad one, nor a line without a
// value. A file may consist of several files, each with its mark.
func TestJSONByteOrderMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.jsonl")
	write(t, path, "\ufeff\"first\"\r\n\"second\"\n\ufeff\"third\"\n\ufeff\n\ufeff\ufeff\"bad\"\n\"last\"")
	r := file.JSON[string](path, file.Options{})
	x := open(t, r, only(t, r), dataflow.Position{})
	if err := x.read(t, 5); err != io.EOF {
		t.Fatal(err)
	}
	if x.is(t, "first", "second", "third", "last"); len(x.bad) != 1 {
		t.Errorf("bad are %+v", x.bad)
	}
}
