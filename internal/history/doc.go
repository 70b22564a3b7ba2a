// Package history reads and writes files with the history of a run: which records each location
// took, how they were divided into steps, and the time that was read. Recordings of package
// dataflow are in this format; their files end in .mrh.
//
// # Format
//
//	file  = "MRH1" frame...
//	frame = length kind check payload sum
//
// The length is that of the payload, as a varint of encoding/binary. The kind is a byte. The
// check is a CRC-8 of the two, so that a damaged length is not mistaken for the end of a
// truncated file. The sum is the CRC-32C of everything before it in the frame: four bytes, little
// endian.
//
// The first frame is the header, a CBOR map; see [Header]. A frame of steps consists of the
// number of their location, followed by the steps:
//
//	step = number flags [origin] [now] takes take...
//	take = operator records length data
//
// The number is the step's place among those of all locations. Both the number and the time are
// the difference to the previous step in the frame, or to 0. All numbers are varints; the origin
// and the time are signed. The data of a take holds each record after its length, in CBOR; for a
// keyed record, the key and then the value. The last frame says how many steps there are and how
// the run ended.
//
// A file that is truncated, or that has no last frame, is read up to its last complete frame, and
// [Reader.Note] says so. Any other defect is an [Error] with the offset of the frame. A reader
// allocates no more than a small multiple of what it has read.
//
// Start reading at [Reader] and [Writer]. A [Recorder] writes steps as they are made, [Save]
// those of a recording in memory, and [Load] reads a file into one.
package history
