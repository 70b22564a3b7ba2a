// Package lockfile lets one process at a time have a folder, by a lock on a file in it. The
// system releases the lock when the process ends, however it ends.
package lockfile

import "errors"

// ErrTaken says that another process, or another holder in this one, has the lock.
var ErrTaken = errors.New("lockfile: taken")
