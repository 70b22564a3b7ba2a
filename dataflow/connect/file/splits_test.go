package file_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/file"
)

// TestSameBeginning checks that files that begin alike are an error that passes, unless their names identify them.
func TestSameBeginning(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		write(t, filepath.Join(dir, name), "first\n")
	}
	_, err := file.Lines(filepath.Join(dir, "*"), file.Options{}).Splits(t.Context())
	if err == nil || !strings.Contains(err.Error(), "begin in the same way") {
		t.Errorf("the error is %v", err)
	}
	all, err := file.Lines(filepath.Join(dir, "*"), file.Options{ByName: true}).Splits(t.Context())
	if err != nil || len(all) != 2 {
		t.Errorf("the splits are %v (%v)", all, err)
	}
	// The header of a CSV file does not identify it.
	for _, name := range []string{"a", "b"} {
		write(t, filepath.Join(dir, name), "n\n"+name+"\n")
	}
	c := file.CSV(filepath.Join(dir, "*"), func(r file.Row) (string, error) { return r.Field("n") }, file.Options{})
	if all, err := c.Splits(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("the splits are %v (%v)", all, err)
	}
}

// TestUnreadableFile checks that a file that cannot be read, and two that begin alike, are an error that passes, and do not keep
// other files from being read.
func TestUnreadableFile(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "first\n")
	if err := os.WriteFile(filepath.Join(dir, "b.gz"), []byte("this is not gzip"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := file.Lines(filepath.Join(dir, "*"), quick)
	all, err := r.Splits(t.Context())
	if len(all) != 1 || !connect.Passes(err) || !strings.Contains(err.Error(), "b.gz") {
		t.Fatalf("the splits are %v (%v)", all, err)
	}
	x := open(t, r, all[0], dataflow.Position{})
	if err := x.read(t, 1); err != nil {
		t.Fatal(err)
	}
	x.is(t, "first")
	// It ends when it is removed, as if the other were not there.
	if err := os.Remove(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if err := x.read(t, 2); err != io.EOF {
		t.Errorf("the error is %v", err)
	}
	for _, name := range []string{"c", "d", "e"} {
		write(t, filepath.Join(dir, name), "same\n")
	}
	write(t, filepath.Join(dir, "f"), "other\n")
	all, err = r.Splits(t.Context())
	if len(all) != 1 || all[0].Name[:len(filepath.Join(dir, "f"))] != filepath.Join(dir, "f") || !connect.Passes(err) || !strings.Contains(err.Error(), "begin in the same way") {
		t.Errorf("the splits are %v (%v)", all, err)
	}
}

// TestEmptyCompressed has a compressed file that nothing was written to yet. The other files are read.
func TestEmptyCompressed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.gz"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "b.gz"), "hello\n")
	r := file.Lines(filepath.Join(dir, "*.gz"), file.Options{})
	x := open(t, r, only(t, r), dataflow.Position{})
	if err := x.read(t, 1); err != nil {
		t.Fatal(err)
	}
	x.is(t, "hello")
}
