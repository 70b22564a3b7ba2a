// Package window is event time: what happened is put in order, counted, joined and forgotten by
// the time at which it happened, and not by the time at which a program hears of it.
//
// # Event, mark, span
//
// An [Event] is a value and its time. [Stamp] makes events of the elements of a stream. An event
// travels in ordinary collections: dataflow.Map, Filter, KeyBy, FlatMap and Merge, and the
// functions of package keyedstream, work on it as on anything else; [With] changes its value.
//
// The mark of a stream is a time: what is still to come happened then or later. Stamp moves it: to the
// largest time so far, less how far out of order the stream may be. It only grows. What comes
// before the mark is late, which is decided there, once, by the order of the stream alone. A
// merged stream has the least of the marks of its sources. What reads only events and marks is a
// function of each source alone, wherever batches end and however sources are interleaved. So
// of the operators here only [StampKeyed], [StampSplits], [StampNow] and [Idle] take a
// [dataflow.NonDet]; those that take a [dataflow.Proof] read events in any order.
//
// A [Span] is the time from one instant until just before another. A [Shape] says in which spans
// a time is, and [Fold] and [Count] keep an aggregate for each [Key]: a key in a span. When the
// mark reaches the end of a span it is closed, for good: its entries are given once, and nothing
// of it is remembered.
//
// # Where a mark ends
//
// A mark passes through what handles one element at a time, and to another location: Send and
// Divide pass it on behind the events that it covers. What comes as a record of its own has none:
// what a slice emits, what keyedsingleton.MapAsync and After return, what came round a cycle, and
// what Send gives of entries that are forgotten. A window without a mark panics while the flow is
// built, and says where the mark was lost. Stamp events again there.
//
// Each partition of a Cluster has a mark of its own. What is sent to a Cluster takes its mark to every
// partition, also to those that get no event. Behind Send from a Cluster the mark is the least of
// those of all partitions: one that stamps events itself and gets none holds it. Stamp before the
// events are divided, and every partition has the mark; or put [Idle] behind Send.
//
// An operator compares each event with the mark, and a function that gives an event a time of its
// own ends the flow when that is before it.
//
// # Windows of the clock
//
// [StampNow] gives each element the time at which it is taken, and its mark goes on with the
// clock. Nothing is late, and a window is closed although nothing more comes.
//
// # Silence
//
// A source of which nothing comes holds the mark of everything that it is merged or joined with.
// [Idle] moves its mark by the clock while its inputs are silent. Of a source that is read in
// parts, [StampSplits] has a mark for each and does not wait for those that are silent. That a stream is silent is not
// sent to another location; the mark is, when the clock has moved it. [dataflow.App.Status] says of
// each operator that waits for a mark how far that is, and which sources hold it.
//
// # The end of time
//
// When the inputs before a Stamp or StampNow are closed its mark is [Future], and all its spans
// are closed. An app that is stopped ends no time. In a durable flow closing an input does not
// either: it says that this process sends no more, and the history goes on tomorrow with its
// windows half full.
// There an end is an element, and [StampBy] says so.
package window
