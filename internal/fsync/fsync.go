// Package fsync makes names in folders durable.
package fsync

import (
	"errors"
	"os"
	"runtime"
)

// Folder makes the names in a folder durable: after a loss of power, a file that was created, linked or renamed before the call is
// there under its name. What the file contains has to be synced by itself.
func Folder(name string) error {
	if runtime.GOOS == "windows" {
		return nil // it does so by itself, and cannot open a folder
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
