// Package connect copies records from other systems into a flow, and elements of a flow to other systems. The types say where
// that happens exactly once. A [Source] is read with [Attach], and a [Sink] is written with [Drain].
//
// What this package promises after crashes holds for durable flows. A flow in memory repeats nothing after the process has ended:
// what it has not given to a sink by then is lost.
//
// # Sources
//
// A [Source] is a system that is read: a topic, the changes of a table, files. It consists of splits, each of which is read in
// order. Each record of a split has a [dataflow.Position] that does not change when the record is read again. [Attach] reads the
// splits of a source and sends their records to a [Port] of a flow:
//
//	in, lines := connect.Input[string, Line](server, "lines") // within the flow
//	pumps, err := connect.Attach(ctx, app, connect.BySplit(files), in, connect.Options{})
//
// Only the history of the flow decides where reading continues. For each split it contains a floor, the position up to which all
// records are durable, and for each partition the position of the last record that the partition took. A split is read from its
// floor, so some records are sent again after a crash, and a partition drops those that it has. Positions that a system stores
// for its readers, such as the committed offsets of a topic, may be updated but are never used.
//
// The constructor of a source determines the order and repeats in the type of its stream: [BySplit], [Whole], [ByKey],
// [Unordered], [Delivered]. A source does not compile with a port of another kind. [Weaken] gives up the order of a source.
//
// # Sinks
//
// A [Sink] is a system that is written. The elements that a partition gives to an output form a [Lane]. They have the numbers 1,
// 2, 3, …, which no crash changes. [Drain] writes lanes. The sink's [Effect] says what happens to an element that is written
// twice. An [Atomic] sink stores the number of the last element together with the data, in one transaction, so each element
// exists once.
//
// # Writing a connector
//
// A source implements [Reader] and [Cursor], or [Receiver] if the system forgets what was acknowledged. A sink implements [Sink]
// and [Writer]. Package connecttest checks implementations.
package connect
