package monitor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/fsync"
)

// A Backed is a flow that can be copied while it runs, such as a [durable.App].
type Backed interface {
	Backup(ctx context.Context, to journal.Opener) (durable.Copied, error)
}

// A Made describes a backup, in JSON.
type Made struct {
	Name       string          `json:"name"`     // of the folder: the time in UTC
	Folder     string          `json:"folder"`   // path of the folder, including the folder of all backups
	Identity   string          `json:"identity"` // of the copy, which is a history of its own
	Partitions []MadePartition `json:"partitions"`
}

// A MadePartition is the result of [durable.Check] for a partition of a backup.
type MadePartition struct {
	Partition int    `json:"partition"`
	From      uint64 `json:"from"`
	Last      uint64 `json:"last"`
	Snapshot  uint64 `json:"snapshot"`
	Messages  uint64 `json:"messages"`
	Steps     uint64 `json:"steps"`
	Waiting   int    `json:"waiting"`
}

// backupName is the time format of a backup's name: it sorts by time and needs no quoting.
const backupName = "20060102T150405Z"

// partial is the suffix of a folder that is not a complete backup yet.
const partial = ".partial"

// Backup returns a handler that makes a backup of a running flow, in a new folder of dir that is named by the
// time. Open opens a log in a folder, as disklog.Dir does.
//
//	POST /backup   201 and a Made when the backup is complete and checked
//
// The flow goes on meanwhile, and the answer takes as long as the copy; see [durable.App.Backup]. If the client
// goes away before the answer, the backup is abandoned. Other answers have the body {"error": why} and are 409
// if another backup is being made or one exists for that second, 507 if there is no space for it, 503 if the
// flow has ended, 400 for a request with a body, and else 500.
//
// The name of the folder ends in .partial until the backup is complete. After an error the folder is removed. A
// .partial folder that stays was cut short with its process. No process removes it, so that none removes what
// another is making.
//
// Anybody who can reach the handler can fill the disk, and learns the path of the folder: check the client in a
// handler in front of this one. The command `millrace durable backup` uses it. Backup panics if flow is nil,
// dir is empty or open is nil.
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

// errBusy and errThere are the answers to a second request.
var (
	errBusy  = errors.New("monitor: a backup is being made already: wait for that")
	errThere = errors.New("monitor: there is a backup of this second already: ask again")
)

func (b *backups) serve(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 { // and until the body is read, the server does not notice that the client has gone
		problem(w, http.StatusBadRequest, errors.New("monitor: a request for a backup has no body"))
		return
	}
	// The time limits of the server are meant for short answers. Errors do not matter: a server without limits
	// or without a connection needs nothing.
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

// statusOf returns the HTTP status for an error of a backup.
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

// make makes a backup. Its folder gets its final name only when everything is in it.
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
	case errors.Is(err, fs.ErrExist): // another process has the same folder for its backups
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
	return made, fsync.Folder(b.dir)
}

// noBackup returns the error of a backup that was not made.
func noBackup(err error) error {
	if errors.Is(err, syscall.ENOSPC) && !errors.Is(err, journal.ErrFull) {
		err = fmt.Errorf("%w: %w", journal.ErrFull, err)
	}
	return fmt.Errorf("monitor: no backup was made: %w", err)
}
