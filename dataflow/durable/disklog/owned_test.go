package disklog_test

import (
	"io/fs"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestFilesOfTheirOwner checks the modes of all files of a log: no other user may read them.
func TestFilesOfTheirOwner(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes there")
	}
	dir := filepath.Join(t.TempDir(), "log")
	for range 2 { // the second one opens existing files
		log, err := disklog.Dir(dir).Open(t.Context(), journal.OpenOptions{Name: "test", Partitions: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(t.Context(), 0, []byte("record")); err != nil {
			t.Fatal(err)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if n++; info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	}); err != nil || n < 5 {
		t.Errorf("%d files, %v", n, err)
	}
}
