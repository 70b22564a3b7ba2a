package durable

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/fsync"
)

// WitnessDir returns a [Witness] in a folder, with one file for each partition that is replaced and synced as a
// whole. Start returns an error if the folder does not exist, so that a disk that is not mounted is noticed, or
// if it is inside the folder of the log. The folder must be on another disk or another machine than the log: a
// witness that is restored together with the log knows no more than the log. Millrace cannot check that.
func WitnessDir(path string) Witness { return witnessDir(path) }

type witnessDir string

func (dir witnessDir) file(partition int) string {
	return filepath.Join(string(dir), fmt.Sprintf("partition-%d", partition))
}

// ready returns an error if the folder cannot be used for the witness of a log.
func (dir witnessDir) ready(log journal.Opener) error {
	info, err := os.Stat(string(dir))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("durable: there is no folder %s for the witness: make it, or mount its disk", string(dir))
	case err != nil:
		return fmt.Errorf("durable: the folder of the witness: %w", err)
	case !info.IsDir():
		return fmt.Errorf("durable: %s, which is to be the folder of the witness, is not a folder", string(dir))
	}
	if at, ok := log.(interface{ Folder() string }); ok && inside(string(dir), at.Folder()) {
		return fmt.Errorf("durable: the witness in %s is in the folder of %s: a copy of the log that is put back has the witness with it; choose another disk", string(dir), log)
	}
	return nil
}

func (dir witnessDir) Load(_ context.Context, partition int) ([]byte, error) {
	if _, err := os.Stat(string(dir)); err != nil {
		return nil, err // not nil: nobody knows whether something was saved
	}
	data, err := os.ReadFile(dir.file(partition))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

func (dir witnessDir) Save(_ context.Context, partition int, data []byte) (err error) {
	name := dir.file(partition)
	if data == nil {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return fsync.Folder(string(dir))
	}
	f, err := os.CreateTemp(string(dir), filepath.Base(name)+".new-*") // other processes may save at the same time
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return err
	}
	return fsync.Folder(string(dir))
}
