//go:build unix

package file_test

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/file"
)

// TestPipe has a pipe among the files, to which nobody writes. It is no split, and looking for splits does not wait for it.
func TestPipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Skip(err)
	}
	write(t, filepath.Join(dir, "log"), "first\n")
	r := file.Lines(filepath.Join(dir, "*"), file.Options{})
	var splits []connect.Split
	found := make(chan error, 1)
	go func() {
		var err error
		splits, err = r.Splits(t.Context())
		found <- err
	}()
	select {
	case err := <-found:
		if len(splits) != 1 || err != nil {
			t.Errorf("there are %v (%v)", splits, err)
		}
	case <-time.After(time.Minute):
		t.Fatal("looking for splits waits")
	}
}
