package dataflow

import (
	"fmt"

	"github.com/millrace/millrace/internal/engine"
)

// A Recording is the history of a run: the incoming records, their order, how they were
// divided into steps, and the times that were read. The zero Recording is ready for
// [Options].Record. It can be read when the flow has ended.
//
// Package recordings writes a recording to a file and reads it again, also in another
// process: package sim makes the same steps there, if the flow is built by the same program.
type Recording recording

// Steps returns how many steps the run had.
func (r *Recording) Steps() int { return historyOf(r).Len() }

// Note says what is missing at the end of a recording that was read from a file, such as
// that of a program that was killed. It returns "" if nothing is missing. An incomplete
// recording still is a run, up to some step of each location.
func (r *Recording) Note() string { return historyOf(r).Note }

// A Recorder writes the history of a run while the run goes on. Package recordings makes
// one, and it is set in [Options].Recorder of one flow. Unlike a [Recording] it does not
// grow: it has a buffer of 64 KiB for each location, or of one record where that is larger.
//
// The goroutine that makes a step writes a full buffer, so a slow writer slows the flow. If
// the writer returns an error, or a value cannot be encoded, the recording fails: the flow
// goes on without it, and [Recorder.Err] and [Recorder.Close] return the error from then
// on. What was written before can be read.
//
// Its methods are safe for concurrent use.
type Recorder recorder

// Flush writes the steps made so far. It returns the recording's error if the recording has
// failed.
func (r *Recorder) Flush() error { return recordingError(fileRecorderOf(r).Flush()) }

// Err returns the reason why the recording has failed, or nil.
func (r *Recorder) Err() error { return recordingError(fileRecorderOf(r).Err()) }

// Close writes the steps made so far and the end of the file. Call it when the flow has
// ended. If the flow still runs, later steps are not recorded, and the file says that the
// run went on. If the recording has failed, Close returns its error, and the file ends
// where it failed. It is safe to call Close more than once.
func (r *Recorder) Close() error { return recordingError(fileRecorderOf(r).Close()) }

func recordingError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("dataflow: Recorder: %w", err)
}

// recorderOf returns the recorder of a flow's options.
func recorderOf(opts Options) engine.StepRecorder {
	r := fileRecorderOf(opts.Recorder)
	if opts.Record != nil {
		engine.Misuse("dataflow.NewWithOptions", "there are a Record and a Recorder: give one of them")
	}
	if !r.Claim() {
		engine.Misuse("dataflow.NewWithOptions", "the Recorder is that of another flow: make one for each")
	}
	return r
}
