//go:build darwin || linux

package natslog

import "syscall"

// room returns the free and the total bytes of the file system of a folder, or zeros if they are
// not known.
func room(dir string) (free, size uint64) {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return 0, 0
	}
	return s.Bavail * uint64(s.Bsize), s.Blocks * uint64(s.Bsize)
}
