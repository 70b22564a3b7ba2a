// Package connect brings records of other systems into a flow, and elements of a flow to other systems, exactly once where the
// types say so.
//
// A flow in memory gives a sink at most what it gave before the process ended: nothing is repeated, and the rest is lost. What is
// said here of crashes is said of durable flows.
//
// # Sources
//
// A [Source] is a system that is read: a topic, a table's changes, files. It has splits, each of which is read in order, and each
// record of a split has a [dataflow.Position] that does not change when it is read again. [Attach] reads the splits of a source
// and sends their records to a [Port] of a flow:
//
//	in, lines := connect.Input[string, Line](server, "lines") // within the flow
//	pumps, err := connect.Attach(ctx, app, connect.BySplit(files), in, connect.Options{})
//
// The history of the flow alone says where to go on. For each split it has a floor, up to where all records are durable, and for
// each partition the position of the last record that it took. A split is read from its floor, so some records are sent again
// after a crash, and a partition drops those that it has. What a system remembers of its readers, such as the committed offsets
// of a topic, is told and never asked.
//
// What the type of a stream says of order and repeats comes from the constructor: [BySplit], [Whole], [ByKey], [Unordered],
// [Delivered]. A source does not compile with a port of another kind; [Weaken] gives up what a source promises.
//
// # Sinks
//
// A [Sink] is a system that is written. The elements that a partition gives to an output have numbers 1, 2, 3, … that no crash
// changes: they are a [Lane]. [Drain] writes them. What happens to an element that is written twice is the sink's [Effect]. An
// [Atomic] sink keeps the number of the last element together with the data, in one transaction, so that each element is there once.
//
// # A connector of one's own
//
// A source implements [Reader] and [Cursor], or [Receiver] if the system forgets what was acknowledged. A sink implements [Sink]
// and [Writer]. Package connecttest shows whether they are right.
package connect
