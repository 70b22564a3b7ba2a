// Package dataflow is the core of a library for writing services and stream programs
// whose answers do not depend on timing.
//
// A program is a graph of live collections. It is built once, from ordinary Go
// values, and then run:
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
// There are five live collections: [Stream], [KeyedStream], [KeyedSingleton],
// [Singleton] and [Optional]. This package defines the types, the locations they live
// at, and the functions of the plain stream. Functions over the others live in
// packages named after them, so that a call reads as what it does:
// keyedsingleton.Map, keyedstream.First, slice.Batch.
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
// Programs rarely spell these types out: functions infer all of them.
//
// # Building and running
//
// A flow is built by one goroutine and started once. A mistake in building it, such
// as reading a slice from outside, is a panic that says package, operator and what
// is wrong. Nothing runs before [Start], and everything ends with the flow.
//
// A location is single-threaded: functions given to its operators never run at the
// same time. An idle location is run by the goroutine that sends to it, a busy one
// by whoever holds its token, so a request to an idle service is answered without
// waking anybody. A function must not wait for its own location: neither Await nor,
// when the queue is full, Send.
//
// # Who sends
//
// Timing-dependent programs do not compile, provided sends to an [Input] are ordered; the
// race detector finds those that are not. What a program says of its senders is in the type
// of the stream:
//
//   - [Input]: one sender at a time. The order of its sends is the order of the stream.
//   - [SharedInput]: any number of senders, and no order.
//   - [SenderInput]: any number of senders, each with an order of its own.
//   - [RetriedInput]: any number of senders, no order, and an element may come again.
//
// keyedstream.Input and its like promise the same of each key. keyedsingleton.Input takes
// requests from anybody: a second Put of a key is refused, and its caller told so.
//
// One sender is one goroutine, or several that take turns: a lock, a channel or a WaitGroup
// orders their sends. A build with -race reports two sends that nothing orders, with both
// stacks, like any data race: when it sees them. A lock makes the sends ordered and leaves it
// to timing who gets it first, so it belongs where that cannot be seen.
//
// Each input takes batches as well: [InputPort.SendBatch], [KeyedInputPort.SendBatch],
// [EntryInputPort.PutBatch] and their like. In memory an idle location takes a batch in one
// step; a durable flow writes it once for each partition.
//
// # What the library promises
//
//   - For the same inputs, an operator without a reason gives the same content in
//     every schedule. Order within a [TotalOrder] stream is part of the content.
//   - A reader who has seen an output sees everything that caused it in whatever it
//     reads next, at every port of that location and of the locations upstream of it.
//     A location shows the results of a step at all of its ports at once, when all of
//     the step has been computed, and only then sends to other locations and begins
//     asynchronous calls; so a function given to MapAsync sees the step that asked for
//     it, too. A step that fails shows nothing.
//   - Timers of a location fire in the order of their deadlines, whichever operators they
//     belong to and however late the location gets round to them. A timer that follows
//     from another one counts from the deadline of that one. At one deadline the operator
//     that was built first comes first.
//   - What was accepted is handled, once. An output that nobody reads stops its
//     location rather than lose anything.
//   - A function that panics ends the flow with a [StepError] that names operator,
//     place, location and key.
//
// # What it does not promise
//
//   - Memory of a key that was seen: it is kept for as long as the flow runs.
//   - Survival of the process: a flow that [Start] runs lives in memory. Package
//     dataflow/durable runs the same flow on a history that is kept.
//   - That an output shows what a sender has just sent when Send or Put returns: a busy
//     location only has the record then. Await the answer, or look after having seen
//     something that follows from it.
//   - That two reads see the same step, or any order between steps of locations that do
//     not send to each other. For one consistent picture, make one value of it, such as
//     with singleton.Zip or keyedsingleton.IntoSingleton.
//   - That a function given to an operator is pure. One that reads the clock or
//     shares memory with others is outside all of the above.
//
// # What can be seen of it
//
// [App.Status] returns what each location has done, what waits there and why it does not
// run. Nobody is slowed down by it. A [BlockedError] says to those who give up waiting, and
// to [Options].OnBlocked, what stops a location. [Flow.Graph] is what a flow is made of.
//
// # Values are shared
//
// A value is copied where Go copies it and shared where Go shares it. A function
// that changes a map, slice or pointee it was given changes it for every other
// reader of the collection: return a new one instead.
//
// # What keeps the promises of a type
//
// Location, bound, order and retries are part of a collection's type. Only the functions
// of this module make and open collections, so a type can be trusted: no conversion,
// type inference, embedding or reflection turns a collection into one of another type.
// Wherever a promise is given up or vouched for, a function takes a reason or a proof.
//
// What a location is follows from how it was made. A location that was converted from
// another type, or taken over from another location, panics when it is used, and so does
// a zero location, slice or collection.
//
// Two things are not kept out. A program with unsafe pointers can write what it likes;
// that includes reflect.NewAt, which takes one. And a module whose path begins with this
// module's can import its internal packages, as the go command has it.
//
// # Reasons and proofs
//
// What depends on timing takes a reason, a [NonDet]. [Flow.Reasons] lists them. What
// depends on a property of a function that the compiler cannot see takes a [Proof].
// [Flow.Proofs] lists those.
package dataflow
