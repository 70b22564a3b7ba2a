// Package follow lets clients follow threads over HTTP: their messages, what is pending, what the user is
// asked, and what the model writes while it does, as server-sent events (WHATWG HTML, section 9.2).
//
//	mux.Handle("GET /threads/{thread}/events", follow.New(rt, follow.Options{}))
//
// A request names with ?from=N the first message that it wants. A browser's EventSource, and any other
// client, sends the id of the last event it has as Last-Event-ID when it asks again, which is the number of
// a message, and gets those behind it: nothing is lost and nothing comes twice, whoever of the two
// was cut off or killed. Last-Event-ID wins over from.
//
//	event     id               data
//	state     –                {"asking", "pending": [{"id", "operation", "state"}], "usage", "closed"}: first, and when it changes
//	message   its number       a message of the history; see [Message]. One of the kind summary says that from there on the model
//	                           is shown its text in the place of the messages before its "from", which stay in the history
//	prompts   –                what the user is asked, all of it, when it changes; see [Prompt]
//	view      –                {"type", "content"}: what a view shows; content {} clears it
//	delta     –                {"round", "attempt", "seq", "text"} or {…, "call": {"index", "id", "operation", "arguments"}}
//	reset     –                {"round", "attempt"}: what was written in this round is void
//	closed    the last one     {}: the thread is closed
//
// Messages are the only truth. Deltas are more of what the model writes; seq counts them in one attempt,
// and 0 begins text and calls anew. They are void when a message of the kind assistant, user or closed comes, with
// a reset, and when the connection ends: a request with Last-Event-ID gets a reset first. Deltas are sent by the process
// that asks the model only; where several share the calls, the others send whole messages.
//
// A thread that is closed, and has no more messages, is answered 204, upon which an EventSource does not
// ask again. One that was never opened is answered 404, one that has moved away 410.
//
// A comment is sent when there was nothing else for 15 s. A client that takes nothing for 10 s is cut off; it
// resumes when it asks again. Nothing is queued for it meanwhile: states between two others are left out,
// and deltas are put together.
//
// [Client] is a client in Go that resumes by itself.
package follow
