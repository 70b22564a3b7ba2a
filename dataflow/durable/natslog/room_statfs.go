//go:build darwin || linux

package natslog

import "syscall"

// room returns how many bytes may be written to the file system of a folder, and how large that is;
// zeros if it does not say.
func room(dir string) (free, size uint64) {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return 0, 0
	}
	return s.Bavail * uint64(s.Bsize), s.Blocks * uint64(s.Bsize)
}
