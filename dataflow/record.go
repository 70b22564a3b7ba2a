package dataflow

import (
	"fmt"
	"io"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/history"
)

// A Recording is the history of a run: what came in, in which order, how it was
// divided into steps, and the time that was read. The zero Recording is ready for
// [Options].Record. It can be read when the flow has ended.
//
// A recording is written to a file with [Recording.WriteTo] and read again with
// [ReadRecording], also by another process: package sim makes the same steps there, if
// the flow is built by the same program. It has what came in, without encryption: whoever
// reads it sees all records.
type Recording recording

// Steps returns how many steps the run had.
func (r *Recording) Steps() int { return historyOf(r).Len() }

// Note says what is missing at the end of a recording that was read from a file, such as
// of a program that was killed, or returns "". What is there is a run nevertheless, up to
// some step of each location.
func (r *Recording) Note() string { return historyOf(r).Note }

// WriteTo writes the recording in the format of .mrh files, and returns how many bytes that
// were. It implements [io.WriterTo]. The values are encoded as those of durable flows are by
// default, in CBOR; no location waits meanwhile. While the flow runs, what is
// written ends with the last step that was made when WriteTo was called.
//
// It returns an error, and has written nothing, if a type of the records cannot be encoded
// without loss, such as a struct with fields that are not exported and without
// MarshalBinary. It returns an error that wraps that of w.
func (r *Recording) WriteTo(w io.Writer) (int64, error) {
	h := historyOf(r)
	if w == nil {
		engine.Misuse("dataflow.Recording.WriteTo", "the writer is nil")
	}
	n, err := history.Save(h, w)
	if err != nil {
		err = fmt.Errorf("dataflow: Recording.WriteTo: %w", err)
	}
	return n, err
}

// ReadRecording reads what [Recording.WriteTo] or a [Recorder] has written, up to the end of
// r. A file whose end is cut off is read as far as it goes, and [Recording.Note] says
// so. Any other damage is an error with the offset of the frame that has it.
//
// The values are decoded when the steps are made again, since their types are those of
// the flow. It takes time and memory in proportion to what is read.
func ReadRecording(r io.Reader) (*Recording, error) {
	if r == nil {
		engine.Misuse("dataflow.ReadRecording", "the reader is nil")
	}
	into := new(Recording)
	if err := history.Load(r, historyOf(into)); err != nil {
		return nil, fmt.Errorf("dataflow: ReadRecording: %w", err)
	}
	return into, nil
}

// A Recorder writes the history of a run while it goes on, for [Options].Recorder of one
// flow. Unlike a [Recording] it does not grow: it has a buffer of 64 KiB for each location,
// and one record where that is larger. [ReadRecording] reads what it has written.
//
// A full buffer is written by whoever makes the step, so a slow writer slows the flow. If
// the writer returns an error, or a value cannot be encoded, the recording fails: the flow
// goes on without it, [Recorder.Err] returns the error from then on, and so does
// [Recorder.Close]. What was written before can be read.
//
// Its methods may be called by any number of goroutines.
type Recorder struct{ in *history.Recorder }

// NewRecorder returns a recorder that writes to w, from the start of the flow on. There is
// one call of w.Write at a time. The recorder does not close w.
func NewRecorder(w io.Writer) *Recorder {
	if w == nil {
		engine.Misuse("dataflow.NewRecorder", "the writer is nil")
	}
	return &Recorder{history.NewRecorder(w)}
}

// Flush writes the steps that were made. It returns why the recording has failed, if it did.
func (r *Recorder) Flush() error { return recordingError(r.made().Flush()) }

// Err returns why the recording has failed, or nil.
func (r *Recorder) Err() error { return recordingError(r.made().Err()) }

// Close writes the steps that were made and the end of the file. It is called when the
// flow has ended; of one that runs, the steps that follow are not recorded, and the file
// says that the run went on. It returns why the recording has failed, if it did: the file ends
// before that then. It is safe to call Close more than once.
func (r *Recorder) Close() error { return recordingError(r.made().Close()) }

func recordingError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("dataflow: Recorder: %w", err)
}

// made panics if nothing made the recorder.
func (r *Recorder) made() *history.Recorder {
	if r == nil || r.in == nil {
		engine.Unmade("dataflow.Recorder", "recorders come from dataflow.NewRecorder")
	}
	return r.in
}

// recorderOf returns the recorder of a flow's options.
func recorderOf(opts Options) engine.StepRecorder {
	r := opts.Recorder.made()
	if opts.Record != nil {
		engine.Misuse("dataflow.NewWithOptions", "there are a Record and a Recorder: give one of them")
	}
	if !r.Claim() {
		engine.Misuse("dataflow.NewWithOptions", "the Recorder is that of another flow: make one for each")
	}
	return r
}
