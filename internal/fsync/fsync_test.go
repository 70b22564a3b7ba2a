package fsync

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"testing"
)

// TestFolder checks that a folder can be synced, and that one that is gone is not said to be durable.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	if err := Folder(dir); err != nil {
		t.Error(err)
	}
	if err := Folder(filepath.Join(dir, "gone")); runtime.GOOS != "windows" && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}
