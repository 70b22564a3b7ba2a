// Package window is event time: it sorts, counts, joins and forgets events by the time at which
// they happened, not by the time at which a program receives them.
//
// # Event, mark, span
//
// An [Event] is a value and its time. [Stamp] turns the elements of a stream into events. An
// event travels in ordinary collections: dataflow.Map, Filter, KeyBy, FlatMap and Merge, and the
// functions of package keyedstream, work on it as on any other value. [With] changes its value.
//
// The mark of a stream is a time: every event still to come happened then or later. Stamp sets it
// to the largest time so far, less how far out of order the stream may be. It only grows. An
// element before the mark is late. Stamp decides that once, by the order of the stream alone. A
// merged stream has the smallest of the marks of its sources. An operator that reads only events
// and marks is a function of each source alone, wherever batches end and however sources are
// interleaved. So of the operators here only [StampKeyed], [StampSplits], [StampNow] and [Idle]
// take a [dataflow.NonDet]; those that take a [dataflow.Proof] read events in any order.
//
// A [Span] is the time from one instant until just before another. A [Shape] assigns a time to
// spans, and [Fold] and [Count] keep an aggregate for each [Key], which is a key in a span. When
// the mark reaches the end of a span, the span is closed for good: its entries are returned once,
// and nothing of it is remembered.
//
// # Where a mark ends
//
// A mark passes through operators that handle one element at a time. Send and Divide pass it to
// another location, behind the events that it covers. A result that arrives as a record of its
// own has no mark: elements that a slice emits, results of keyedsingleton.MapAsync and After,
// elements from a cycle, and results of Send of a collection that forgets entries. A window
// without a mark panics while the flow is built, and says where the mark was lost. Stamp events
// again there.
//
// Each partition of a Cluster has its own mark. Send to a Cluster passes the mark to every
// partition, also to those that get no event. After Send from a Cluster, the mark is the smallest
// of those of all partitions, so a partition that stamps events itself and gets none holds it.
// Either stamp before the events are divided, which gives every partition the mark, or put [Idle]
// after Send.
//
// An operator compares each event with the mark. If a function gives an event a time before the
// mark, the flow ends.
//
// # Windows of the clock
//
// [StampNow] gives each element the time at which it is taken, and its mark advances with the
// clock. Nothing is late, and a window is closed even if nothing more comes.
//
// # Silence
//
// A silent source holds the mark of every stream that it is merged or joined with. [Idle] moves
// its mark by the clock while its inputs are silent. For a source that is read in parts,
// [StampSplits] has a mark for each part and does not wait for silent ones. The silence of a
// stream is not sent to another location, but its mark is, when the clock has moved it. For each
// operator that waits for a mark, [dataflow.App.Status] says how far the mark is, and which
// sources hold it.
//
// # The end of time
//
// When the inputs before a Stamp or StampNow are closed its mark is [Future], and all its spans
// are closed. Stopping an app does not end time. Nor does closing an input of a durable flow: it
// says that this process sends no more, and the history may go on tomorrow with its windows half
// full. In a durable flow the end of time is an element, and [StampBy] reads it.
package window
