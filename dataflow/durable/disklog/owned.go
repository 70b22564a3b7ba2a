package disklog

import (
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// owned is the file system of the machine, with files that only their owner can read. This matters
// if the folder, or a copy of it, is open to others.
type owned struct{ vfs.FS }

// Unwrap implements [vfs.FS].
func (fs owned) Unwrap() vfs.FS { return fs.FS }

func (owned) closed(name string, f vfs.File, err error) (vfs.File, error) {
	if err == nil {
		if err = os.Chmod(name, 0o600); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, err
}

// Create implements [vfs.FS].
func (fs owned) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, category)
	return fs.closed(name, f, err)
}

// OpenReadWrite implements [vfs.FS].
func (fs owned) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.OpenReadWrite(name, category, opts...)
	return fs.closed(name, f, err)
}
