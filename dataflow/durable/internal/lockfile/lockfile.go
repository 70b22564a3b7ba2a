// Package lockfile lets one process at a time have a folder, by a lock on a file in it. The
// system releases the lock when the process ends, however it ends.
package lockfile

import (
	"context"
	"errors"
	"os"
	"time"
)

// ErrTaken says that another process, or another holder in this one, has the lock.
var ErrTaken = errors.New("lockfile: taken")

// The system ends a process that was killed some time after kill has returned: its successor
// waits so long, and asks so often.
const (
	patience = 2 * time.Second
	again    = 10 * time.Millisecond
)

// Take takes a file for this process. It returns [ErrTaken] if another holder still has it after
// two seconds, and the cause of ctx if that ends before.
func Take(ctx context.Context, path string) (*os.File, error) {
	for end := time.Now().Add(patience); ; {
		f, err := try(path)
		if !errors.Is(err, ErrTaken) || time.Now().After(end) {
			return f, err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
