// Package history reads and writes files with the history of a run: which records each
// location took, how they were divided into steps, and the time that was read. Files of
// package dataflow's recordings have it, and end in .mrh.
//
// # Format
//
//	file  = "MRH1" frame...
//	frame = length kind check payload sum
//
// The length is that of the payload, a varint of encoding/binary. The kind is a byte. The check
// is a CRC-8 of the two, so that a damaged length is not taken for the end of a file that was cut
// off. The sum is the CRC-32C of all of the frame before it, four bytes, the least first.
//
// The first frame is the header, a CBOR map; see [Header]. A frame of steps has the number of
// their location, and one step behind the other:
//
//	step = number flags [origin] [now] takes take...
//	take = operator records length data
//
// The number is the step's place among those of all locations. Both it and the time are the
// difference to the step before in the frame, or to 0. All are varints, and the origin and the
// time are signed. The data of a take has each record behind its length, and of keyed records
// the key before the value, in CBOR. The last frame says how many steps there are and how the
// run ended.
//
// A file whose last frame is cut off, or which has no last frame, is read up to there and noted.
// Everything else that does not fit is an [Error] with the offset of the frame. A reader
// allocates no more than a small multiple of what it has read.
//
// Start reading at [Reader] and [Writer]. A [Recorder] writes steps as they are made, [Save]
// those of a recording in memory, and [Load] reads a file into one.
package history
