package recordings

import (
	"fmt"
	"io"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/history"
)

// Write writes a recording of a run, which a flow kept in memory, to a file, and returns the
// number of bytes written. No location waits meanwhile. If the flow still runs, the file ends
// with the last step that was made when Write was called.
//
// It returns an error and writes nothing if a type of the records cannot be encoded without loss,
// such as a struct with unexported fields and without MarshalBinary. It returns an error that wraps
// that of w. It takes time in proportion to the size of the file.
func Write(w io.Writer, r *dataflow.Recording) (int64, error) {
	if w == nil {
		engine.Misuse("recordings.Write", "the writer is nil")
	}
	n, err := history.Save(historyOf(r), w)
	if err != nil {
		err = fmt.Errorf("recordings: Write: %w", err)
	}
	return n, err
}

// Read reads what [Write] or a recorder has written, up to the end of r. It reads a truncated file
// as far as it goes, and [dataflow.Recording.Note] says so. Any other damage is an error with the
// offset of the damaged frame.
//
// Values are decoded when the steps are made again, since their types are those of the flow. Read
// takes time and memory in proportion to the size of the file.
func Read(r io.Reader) (*dataflow.Recording, error) {
	if r == nil {
		engine.Misuse("recordings.Read", "the reader is nil")
	}
	into := new(dataflow.Recording)
	if err := history.Load(r, historyOf(into)); err != nil {
		return nil, fmt.Errorf("recordings: Read: %w", err)
	}
	return into, nil
}

// NewRecorder returns a recorder, for [dataflow.Options].Recorder of one flow, that writes to w from
// the start of the flow on. It calls w.Write from one goroutine at a time. It does not close w.
func NewRecorder(w io.Writer) *dataflow.Recorder {
	if w == nil {
		engine.Misuse("recordings.NewRecorder", "the writer is nil")
	}
	return recorderOf(history.NewRecorder(w))
}
