// Package follow lets clients follow threads over HTTP: their messages, their pending calls, their open prompts, and what the
// model writes while it writes, as server-sent events (WHATWG HTML, section 9.2). On the server, start with [New].
//
//	mux.Handle("GET /threads/{thread}/events", follow.New(rt, follow.Options{}))
//
// A request names the first message that it wants with ?from=N. When a client reconnects, it sends the id of the last event it
// has as Last-Event-ID, as a browser's EventSource does. The id is the number of a message, and the client gets the messages
// after it: none is lost and none is repeated, whichever side was disconnected or killed. Last-Event-ID takes precedence over
// from.
//
//	event     id               data
//	state     –                {"asking", "pending": [{"id", "operation", "state"}], "usage", "closed"}: first, and when it changes
//	message   its number       a message of the history; see Message. A summary says that from here on the model is shown its
//	                           text in place of the messages before its "from", which stay in the history
//	prompts   –                all open prompts, when they change; see Prompt
//	view      –                {"type", "content"}: the content of a view; {} clears it
//	delta     –                {"round", "attempt", "seq", "text"} or {…, "call": {"index", "id", "operation", "arguments"}}
//	reset     –                {"round", "attempt"}: what was written in this round so far is void
//	closed    the last one     {}: the thread is closed
//
// Only messages are reliable. A delta is a further part of what the model writes; seq counts the deltas of one attempt, and 0
// starts the text and the calls anew. Deltas become void when a message of the kind assistant, user or closed arrives, with a
// reset, and when the connection ends: a request with Last-Event-ID gets a reset first. Only the process that asks the model
// sends deltas; if several processes share the calls, the others send whole messages.
//
// A request for a closed thread without further messages is answered 204, after which an EventSource does not reconnect. A thread
// that was never opened is answered 404, and one that has moved away 410.
//
// The server sends a comment after 15 s without an event. It disconnects a client that accepts nothing for 10 s; the client
// resumes when it reconnects. Nothing is queued for it in the meantime: intermediate states are skipped, and deltas are merged.
//
// [Client] is a client in Go that reconnects by itself.
package follow
