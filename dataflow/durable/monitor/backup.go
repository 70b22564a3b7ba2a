package monitor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A Backed is a flow that can be copied while it runs: a [durable.App].
type Backed interface {
	Backup(ctx context.Context, to journal.Opener) (durable.Copied, error)
}

// A Made is a backup in JSON.
type Made struct {
	Name       string          `json:"name"`     // of the folder, which is the time in UTC
	Folder     string          `json:"folder"`   // with that of all backups before it
	Identity   string          `json:"identity"` // of the copy, which is a history of its own
	Partitions []MadePartition `json:"partitions"`
}

// A MadePartition is what [durable.Check] has found of a partition of a backup.
type MadePartition struct {
	Partition int    `json:"partition"`
	From      uint64 `json:"from"`
	Last      uint64 `json:"last"`
	Snapshot  uint64 `json:"snapshot"`
	Messages  uint64 `json:"messages"`
	Steps     uint64 `json:"steps"`
	Waiting   int    `json:"waiting"`
}

// backupName is the time in the name of a backup: in order, and in no need of quotes.
const backupName = "20060102T150405Z"

// partial is behind the name of a folder that is not a backup yet.
const partial = ".partial"

// Backup returns a handler that makes a backup of a flow that runs, in a new folder of dir that is
// named by the time. Open opens a log in a folder, as disklog.Dir does.
//
//	POST /backup   201 and a [Made] when the backup is complete and checked
//
// The flow goes on meanwhile, and the answer takes as long as the copy; see [durable.App.Backup]. A
// client that goes away before the answer ends it. The answer is 409 if another backup is
// being made or there is one of that second, 507 if there is no room for it, 503 if the flow has ended, 400 for a
// request with a body, and else 500; the body is {"error": why}.
//
// Until a backup is complete its folder has a name that ends in .partial, and after an error
// that is removed. One that is left was cut short, with its process: no process removes it, so that none
// removes what another is making.
//
// Whoever asks can fill the disk, and learns the name of the folder: check who asks, in a handler in front of
// this one. The command `millrace durable backup` asks it. Backup panics if flow is nil, dir is
// empty or open is nil.
func Backup(flow Backed, dir string, open func(folder string) journal.Opener) http.Handler {
	if flow == nil || dir == "" || open == nil {
		panic("monitor: Backup needs a flow, what durable.Start returned, a folder for backups and a function such as disklog.Dir")
	}
	b := &backups{flow: flow, dir: dir, open: open}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /backup", b.serve)
	return mux
}

type backups struct {
	flow   Backed
	dir    string
	open   func(string) journal.Opener
	making sync.Mutex
}

// errBusy and errThere are what a second request gets.
var (
	errBusy  = errors.New("monitor: a backup is being made already: wait for that")
	errThere = errors.New("monitor: there is a backup of this second already: ask again")
)

func (b *backups) serve(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 { // and until it was read nobody would notice that the client has gone
		problem(w, http.StatusBadRequest, errors.New("monitor: a request for a backup has no body"))
		return
	}
	// The limits of the server are for short answers. One that has none, or no connection, needs
	// nothing.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(time.Time{})
	made, err := b.make(r.Context(), time.Now())
	if err != nil {
		problem(w, statusOf(err), err)
		return
	}
	answerJSON(w, http.StatusCreated, made)
}

// statusOf returns the status for an error of a backup.
func statusOf(err error) int {
	switch {
	case errors.Is(err, errBusy), errors.Is(err, errThere):
		return http.StatusConflict
	case errors.Is(err, journal.ErrFull):
		return http.StatusInsufficientStorage
	case errors.Is(err, journal.ErrClosed), errors.Is(err, durable.ErrStopped), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// make makes a backup. Its folder has its name only when everything is in it.
func (b *backups) make(ctx context.Context, now time.Time) (made Made, err error) {
	if !b.making.TryLock() {
		return made, errBusy
	}
	defer b.making.Unlock()
	made.Name = now.UTC().Format(backupName)
	made.Folder = filepath.Join(b.dir, made.Name)
	if _, err := os.Lstat(made.Folder); !errors.Is(err, fs.ErrNotExist) {
		return made, errors.Join(errThere, err)
	}
	at := made.Folder + partial
	switch err := os.Mkdir(at, 0o700); {
	case errors.Is(err, fs.ErrExist): // of another process, which has the same folder for its backups
		return made, errThere
	case err != nil:
		return made, noBackup(err)
	}
	defer func() {
		if err != nil {
			err = noBackup(err)
			if left := os.RemoveAll(at); left != nil {
				err = fmt.Errorf("%w; and %s is left: %w", err, at, left)
			}
		}
	}()
	copied, err := b.flow.Backup(ctx, b.open(at))
	if err != nil {
		return made, err
	}
	switch err := os.Rename(at, made.Folder); {
	case errors.Is(err, fs.ErrExist):
		return made, errThere
	case err != nil:
		return made, err
	}
	at = made.Folder
	made.Identity = copied.Identity.String()
	for _, p := range copied.Partitions {
		made.Partitions = append(made.Partitions, MadePartition{
			Partition: p.Partition, From: p.From, Last: p.Last, Snapshot: p.Snapshot, Messages: p.Messages, Steps: p.Steps, Waiting: p.Waiting,
		})
	}
	return made, syncDir(b.dir)
}

// noBackup is the error of a backup that was not made.
func noBackup(err error) error {
	if errors.Is(err, syscall.ENOSPC) && !errors.Is(err, journal.ErrFull) {
		err = fmt.Errorf("%w: %w", journal.ErrFull, err)
	}
	return fmt.Errorf("monitor: no backup was made: %w", err)
}

// syncDir makes names in a folder durable, where a folder can be synced.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil || runtime.GOOS == "windows" {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
