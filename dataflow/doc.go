// Package dataflow is the core of a library for writing services and stream programs whose
// answers do not depend on timing.
//
// A program is a graph of live collections. It is built once, from ordinary Go values, and
// then run:
//
//	type Server struct{ dataflow.Process }
//
//	flow := dataflow.New()
//	server := dataflow.At[Server](flow)
//	in, requests := keyedsingleton.Input[string, Request](server, "requests")
//	out := keyedsingleton.Output(keyedsingleton.Map(requests, handle), "responses")
//
//	app, err := dataflow.Start(ctx, flow)
//	err = in.Put(ctx, "request-1", request)
//	response, err := out.Await(ctx, "request-1")
//	err = app.Stop(ctx)
//
// There are five live collections: [Stream], [KeyedStream], [KeyedSingleton], [Singleton]
// and [Optional]. This package defines the types, the locations they live at, and the
// functions of the plain stream. Functions over the others live in packages named after
// them, so that a call says what it does: keyedsingleton.Map, keyedstream.First,
// slice.Batch.
//
// # Reading a collection type
//
// The type parameters come in the same order and with the same letters everywhere:
//
//	KeyedStream[K, V, L, B, O, R]
//	            │  │  │  │  │  └ Retries   ExactlyOnce or AtLeastOnce
//	            │  │  │  │  └─── Order     TotalOrder or NoOrder, within a key
//	            │  │  │  └────── Bound     what may still change; see package bounds
//	            │  │  └───────── Location  where the collection lives
//	            │  └──────────── Value
//	            └─────────────── Key
//
// Programs rarely spell these types out: functions infer all of them. A function of a
// program that takes or returns a collection has to, and four aliases save it most of the
// words: [OrderedStream], [OrderedKeyedStream] and [UnorderedKeyedStream] are the streams
// of inputs, and [FixedKeyedSingleton] is that of requests and their responses.
//
// # Building and running
//
// A flow is built by one goroutine and started once. A mistake in building it, such as
// reading a slice from outside, is a panic that names the package, the operator and the
// mistake. Nothing runs before [Start], and everything ends with the flow.
//
// A location is single-threaded: functions given to its operators never run at the same
// time. A goroutine that sends to an idle location runs it. A busy location is run by the
// goroutine that holds its run token. So an idle service answers a request without waking
// another goroutine. A function must not wait for its own location: neither with Await nor,
// when the queue is full, with Send.
//
// # Who sends
//
// Timing-dependent programs do not compile, provided sends to an [Input] are ordered; the
// race detector finds those that are not. The type of the stream states what a program
// guarantees about its senders:
//
//   - [Input]: one sender at a time. The order of its sends is the order of the stream.
//   - [SharedInput]: any number of senders, and no order.
//   - [SenderInput]: any number of senders, each with an order of its own.
//   - [RetriedInput]: any number of senders, no order, and an element may come again.
//
// keyedstream.Input and its variants promise the same for each key. keyedsingleton.Input
// takes requests from any number of senders: a second Put of a key returns an error.
//
// One sender is one goroutine, or several that take turns: a lock, a channel or a WaitGroup
// orders their sends. A build with -race reports two unordered sends that it sees, with
// both stacks, like any data race. A lock orders the sends but leaves to timing which
// goroutine gets it first, so use a lock only where the result does not show that order.
//
// Each input takes batches as well: [InputPort.SendBatch], [KeyedInputPort.SendBatch],
// [EntryInputPort.PutBatch] and similar methods. In memory an idle location takes a batch
// in one step; a durable flow writes it once for each partition.
//
// # What the library promises
//
//   - For the same inputs, an operator without a reason gives the same content in
//     every schedule. Order within a [TotalOrder] stream is part of the content.
//   - A reader that has seen an output sees everything that caused it in its next read,
//     at every port of that location and of the locations upstream of it. A location
//     shows the results of a step at all of its ports at once, when the whole step has
//     been computed. Only then does it send to other locations and begin asynchronous
//     calls, so a function given to MapAsync sees the step that asked for it, too. A
//     step that fails shows nothing.
//   - Timers of a location fire in the order of their deadlines, across operators and
//     however late the location handles them. A timer that follows from another one
//     counts from the deadline of that one. At one deadline, the operator that was
//     built first comes first.
//   - Every accepted element is handled, once. An unread output stops its location
//     rather than lose anything.
//   - A function that panics ends the flow with a [StepError] that names operator,
//     place, location and key.
//
// # What it does not promise
//
//   - Bounded memory for keys: a key that was seen is kept for as long as the flow runs.
//   - Survival of the process: a flow that [Start] runs lives in memory. Package
//     dataflow/durable runs the same flow on a history that is kept.
//   - That an output shows an element as soon as its Send or Put returns: a busy location
//     has only accepted the record by then. Await the answer, or look after having seen
//     something that follows from it.
//   - That two reads see the same step, or any order between steps of locations that do
//     not send to each other. For one consistent snapshot, make one value of it, such as
//     with singleton.Zip or keyedsingleton.IntoSingleton.
//   - Anything above for functions that are not pure, such as one that reads the clock or
//     shares memory with others.
//
// # Observing a flow
//
// [App.Status] returns what each location has done, what waits there and why it does not
// run. It does not slow the flow down. A [BlockedError] says what stops a location: callers
// that give up waiting get it, and so does [Options].OnBlocked. [Flow.Graph] returns the
// operators of a flow and how they are connected.
//
// # Values are shared
//
// A value is copied where Go copies it and shared where Go shares it. A function that
// changes a map, slice or pointee it was given changes it for every other reader of the
// collection: return a new one instead.
//
// # What keeps the promises of a type
//
// Location, bound, order and retries are part of a collection's type. Only the functions of
// this module make and open collections, so a type can be trusted: no conversion, type
// inference, embedding or reflection turns a collection into one of another type. A
// function whose result depends on timing, or that relies on a promise that the compiler
// cannot check, takes a reason or a proof.
//
// The documentation shows collections, ports and locations as declared from unexported
// types, such as Stream from stream. These hold what only the functions of this module open.
//
// A location gets its identity from the call that made it. A location that was converted
// from another type, or that embeds the Process or Cluster of another one, panics when it is
// used, and so does a zero location, slice or collection.
//
// Two things are not prevented. A program with unsafe pointers can write anything; that
// includes reflect.NewAt, which takes one. And a module whose path begins with this
// module's path can import its internal packages, as the go command allows.
//
// # Reasons and proofs
//
// An operator whose result depends on timing takes a reason, a [NonDet]. [Flow.Reasons]
// lists them. An operator that relies on a property of a function that the compiler cannot
// see takes a [Proof]. [Flow.Proofs] lists those.
package dataflow
