// Package recordings keeps the history of a run in a file.
//
// A flow that misbehaves once in a thousand runs is hard to understand from its logs. A recording
// contains the incoming records, their order, how they were divided into steps and the times that
// were read. Function RerunFile of package sim makes the same steps again from a file: in a test, in
// another process, on another machine, as often as needed. There are two ways to make a file:
//
//   - [dataflow.Options].Record keeps a run in memory, and [Write] writes it when it has gone wrong.
//   - [NewRecorder] makes a recorder for [dataflow.Options].Recorder, which writes the history while
//     a long-running flow goes on. Its memory does not grow.
//
// Both write the same format; its files end in .mrh. Values are encoded in CBOR, as in durable flows.
// A recording is not encrypted: anyone who can read the file can see all records. The package is
// separate from package dataflow so that a program that only runs flows does not depend on an encoder.
//
// The history of a durable flow is its log. Method Export of durable.History writes it in this
// format.
package recordings
