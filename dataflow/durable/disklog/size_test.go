package disklog_test

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// An unsized file system does not report how much room it has.
type unsized struct{ vfs.FS }

func (unsized) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{}, errors.ErrUnsupported
}

// TestSize checks the reported size of a folder, which is its reserve and its records,
// and its limit.
func TestSize(t *testing.T) {
	t.Parallel()
	for name, fs := range map[string]vfs.FS{"a disk": vfs.Default, "without its size": unsized{vfs.Default}} {
		l := openAs(t, disklog.On(fs, t.TempDir(), disklog.Options{Reserve: 1 << 20}), journal.OpenOptions{Partitions: 2, MaxBytes: 2 << 20})
		before, err := l.Size(soon(t))
		if err != nil || before.Bytes < 1<<20 || before.Kept != 0 || before.MaxBytes != 2<<20 {
			t.Errorf("%s: %+v, %v", name, before, err)
		}
		if known := before.Disk > 0; known != (fs == vfs.Default) || before.Free > before.Disk {
			t.Errorf("%s: the file system: %+v", name, before)
		}
		record := make([]byte, 700_000)
		if _, err := l.Append(soon(t), 1, record); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(soon(t), 0, record); !errors.Is(err, journal.ErrFull) {
			t.Errorf("beyond the bound: %v", err)
		}
		after, err := l.Size(soon(t))
		if err != nil || after.Kept < uint64(len(record)) || after.Bytes < before.Bytes+uint64(len(record)) {
			t.Errorf("%s: %+v, and was %+v: %v", name, after, before, err)
		}
	}
}
