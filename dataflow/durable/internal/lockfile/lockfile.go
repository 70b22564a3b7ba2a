// Package lockfile gives one process at a time exclusive use of a folder, by a lock on a file in it. The system
// releases the lock when the process ends, however it ends.
package lockfile

import (
	"context"
	"errors"
	"os"
	"time"
)

// ErrTaken says that another process, or another holder in this process, has the lock.
var ErrTaken = errors.New("lockfile: taken")

// patience is how long Take waits for another holder: a killed process may end some time after kill has returned.
// again is the pause between attempts.
const (
	patience = 2 * time.Second
	again    = 10 * time.Millisecond
)

// Take locks a file for this process. It returns [ErrTaken] if another holder still has it after two seconds,
// and the cause of ctx if that ends first.
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
