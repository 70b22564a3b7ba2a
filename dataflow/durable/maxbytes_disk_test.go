package durable

import (
	"context"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// filesOf returns the total size of the files in a folder.
func filesOf(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil { // fails if the file was removed meanwhile
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// TestMaxBytesOnDisk sends several times what a log on disk may keep and compares the size of its
// files with the limit.
func TestMaxBytesOnDisk(t *testing.T) {
	const limit, size, each = 32 << 20, 64 << 10, 400
	dir := t.TempDir()
	for _, x := range []struct {
		name   string
		log    journal.Opener
		beyond int64 // what the files may need in addition
	}{
		// The reserve takes 16 MiB, the write-ahead logs of memtables take as much, and as much
		// may wait for compaction.
		{"disklog", disklog.Dir(filepath.Join(dir, "disklog")), 48 << 20},
		{"natslog", natslog.Embedded(filepath.Join(dir, "natslog")), 16 << 20},
	} {
		t.Run(x.name, func(t *testing.T) {
			o := onlyFull
			o.Log, o.MaxBytes, o.Partitions = x.log, limit, 4
			app := start(t, nil, chunkFlow, o)
			most, over := make(chan int64), make(chan struct{})
			go func() {
				largest := int64(0)
				for tick := time.NewTicker(50 * time.Millisecond); ; {
					select {
					case <-tick.C:
						largest = max(largest, filesOf(filepath.Join(dir, x.name)))
					case <-over:
						most <- largest
						return
					}
				}
			}()
			keys := keysOf(4)
			if err := sendChunks(t.Context(), app, keys, each, func() chunk { return chunk{Data: noise(size)} }); err != nil {
				t.Fatal(err)
			}
			wantChunks(t, app, keys, each)
			close(over)
			largest := <-most
			t.Logf("%d MiB were sent, MaxBytes is %d MiB, the files had %.1f MiB at most", len(keys)*each*size>>20, limit>>20, float64(largest)/(1<<20))
			if largest > limit+x.beyond {
				t.Errorf("the files had %d bytes", largest)
			}
			stop(t, app)
		})
	}
}

// TestMaxBytesOfState has a state of an eighth of the limit and sends several times the limit. All
// of it is accepted.
func TestMaxBytesOfState(t *testing.T) {
	const limit, keys, size = 8 << 20, 64, 16 << 10
	for name, log := range map[string]journal.Opener{
		"memory":  &reopened{journal.NewMemory(journal.MemoryOptions{Partitions: 2, MaxBytes: limit})},
		"disklog": disklog.Dir(t.TempDir()), "natslog": natslog.Embedded(t.TempDir()),
	} {
		t.Run(name, func(t *testing.T) {
			o := onlyFull
			o.Log, o.MaxBytes, o.Partitions = log, limit, 2
			app := start(t, nil, chunkFlow, o)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := sendChunks(ctx, app, keysOf(keys), 32, func() chunk { return chunk{Data: noise(size), Keep: true} }); err != nil {
				t.Fatal(err)
			}
			stop(t, app)
		})
	}
}
