package dataflow

import (
	"fmt"
	"io"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/history"
)

// A Recording is the history of a run: the incoming records, their order, how they were
// divided into steps, and the times that were read. The zero Recording is ready for
// [Options].Record. It can be read when the flow has ended.
//
// [Recording.WriteTo] writes a recording to a file and [ReadRecording] reads it again, also
// in another process: package sim makes the same steps there, if the flow is built by the
// same program. A recording is not encrypted: anyone who can read it can see all records.
type Recording recording

// Steps returns how many steps the run had.
func (r *Recording) Steps() int { return historyOf(r).Len() }

// Note says what is missing at the end of a recording that was read from a file, such as
// that of a program that was killed. It returns "" if nothing is missing. An incomplete
// recording still is a run, up to some step of each location.
func (r *Recording) Note() string { return historyOf(r).Note }

// WriteTo writes the recording in the .mrh format and returns the number of bytes written.
// It implements [io.WriterTo]. Values are encoded in CBOR, the default of durable flows. No
// location waits meanwhile. If the flow runs, the file ends with the last step that was
// made when WriteTo was called.
//
// It returns an error and writes nothing if a type of the records cannot be encoded without
// loss, such as a struct with unexported fields and without MarshalBinary. It returns an
// error that wraps that of w.
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

// ReadRecording reads what [Recording.WriteTo] or a [Recorder] has written, up to the end
// of r. It reads a truncated file as far as it goes, and [Recording.Note] says so. Any
// other damage is an error with the offset of the damaged frame.
//
// Values are decoded when the steps are made again, since their types are those of the
// flow. ReadRecording takes time and memory in proportion to the size of the file.
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

// A Recorder writes the history of a run while the run goes on. It is set in
// [Options].Recorder of one flow. Unlike a [Recording] it does not grow: it has a buffer of
// 64 KiB for each location, or of one record where that is larger. [ReadRecording] reads
// what it has written.
//
// The goroutine that makes a step writes a full buffer, so a slow writer slows the flow. If
// the writer returns an error, or a value cannot be encoded, the recording fails: the flow
// goes on without it, and [Recorder.Err] and [Recorder.Close] return the error from then
// on. What was written before can be read.
//
// Its methods are safe for concurrent use.
type Recorder struct{ in *history.Recorder }

// NewRecorder returns a recorder that writes to w from the start of the flow on. It calls
// w.Write from one goroutine at a time. It does not close w.
func NewRecorder(w io.Writer) *Recorder {
	if w == nil {
		engine.Misuse("dataflow.NewRecorder", "the writer is nil")
	}
	return &Recorder{history.NewRecorder(w)}
}

// Flush writes the steps made so far. It returns the recording's error if the recording has
// failed.
func (r *Recorder) Flush() error { return recordingError(r.made().Flush()) }

// Err returns the reason why the recording has failed, or nil.
func (r *Recorder) Err() error { return recordingError(r.made().Err()) }

// Close writes the steps made so far and the end of the file. Call it when the flow has
// ended. If the flow still runs, later steps are not recorded, and the file says that the
// run went on. If the recording has failed, Close returns its error, and the file ends
// where it failed. It is safe to call Close more than once.
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
