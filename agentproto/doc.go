// Package agentproto speaks the protocol between an agent runtime, which holds a
// conversation with a language model, and tool servers, which run its tools.
//
// # The protocol in one page
//
// A runtime learns what a server offers from its [Manifest]. When the model calls a tool, the runtime posts an [Invocation], and
// the server acknowledges it at once. The server posts the outcome later, to the callback_url of the invocation:
//
//	runtime                                            tool server
//	   │  GET /.well-known/rap-toolset                      │
//	   │ ─────────────────────────────────────────────────► │
//	   │ ◄───────────────────────────────────────────────── │
//	   │                                    200, Manifest   │
//	   │                                                    │
//	   │  POST endpoint, Invocation                         │
//	   │ ─────────────────────────────────────────────────► │
//	   │ ◄───────────────────────────────────────────────── │
//	   │                                             200    │
//	   │                                                    │  any number of detours:
//	   │            POST callback_url, OAuth or UserChoice  │
//	   │ ◄───────────────────────────────────────────────── │
//	   │  POST response_url, ChoiceResponse                 │  (of a UserChoice)
//	   │ ─────────────────────────────────────────────────► │
//	   │                                                    │
//	   │                     POST callback_url, ToolResult  │  exactly once
//	   │ ◄───────────────────────────────────────────────── │
//	   │                                                    │  if it opened a subscription:
//	   │              POST callback_url, SubscriptionEvent  │
//	   │ ◄───────────────────────────────────────────────── │
//	   │                                                    │
//	   │  POST /close_thread, /cancel_tool_call, /migrate   │
//	   │ ─────────────────────────────────────────────────► │
//
// A call is named by its thread and its id, the [CallKey]. The result may arrive before the acknowledgement. An [OAuth] says that
// the user has to authorize the tool first, and a [UserChoice] asks the user something. To the runtime the call only takes
// longer, up to a documented timeout. No message reports a failure: a call fails with a ToolResult whose text starts with
// "Error: ". A [ViewUpdate] may arrive at any time and belongs to the thread, not to a call.
//
// The runtime posts [CloseThread] and [CancelToolCall] to every server once, and does not wait for them. It posts [Migrate] to
// the servers whose manifest asks for it, when a session moves to another host.
//
// # Resolving a call
//
// A message may arrive twice, late, or not at all. [Program] turns whatever arrives for a call into exactly one [Resolution]. A
// call is in one of these states, and each ends after a time. The times are those of doc/protocol.md §6.3, and each can be set:
//
//	state            ends by itself after       how                        set by
//	pending          15 minutes                 error, and cancelled       Call.Lifetime, ProgramOptions.Lifetime
//	oauth pending    10 minutes                 error, and cancelled       Event.Timeout
//	choice pending   24 hours                   the default is taken and   Event.Timeout
//	                                            it is pending again
//	pending again    its lifetime, from then    error, and cancelled       Event.Lifetime
//	completed        never                      late messages are counted
//
// A call may open at most five detours. If its result opened a subscription, the completed call delivers events until one is
// final, the subscription is cancelled, its thread is closed or the tool server has lost it. Each webhook-id counts once.
//
// A thread can move to another program together with all its open calls; see [Program.Freeze].
//
// # Reading messages
//
// Messages of a peer are untrusted. The decoders (DecodeCallback and so on) either read a message as other implementations do or
// refuse it:
//
//   - It is one JSON object in UTF-8, followed by nothing and within [Limits].
//   - No member occurs twice, at any level, however its name is escaped.
//   - Names are compared exactly: Group_ID is an unknown member.
//   - Unknown members are ignored at every level, and [Encode] does not write them.
//   - Members have their type. An integer may be written as 2.0. Null means absent, so a required member that is null is missing.
//   - Numbers are within the range of a float64, even in members that are ignored.
//   - An id has 1 to 1024 bytes and no control characters, line breaks or marks that
//     reorder text. Slashes, dots and emoji are fine: an id is a name for comparing
//     and logging and never a path, a header or a label.
//   - An auth_url is https, has no user name and contains no invisible characters.
//
// The error is a [MessageError], which names the member, the HTTP status to answer with, and the call if the message could be
// read that far. A tool does not repeat a refused message, so its call has to be resolved with an error.
//
// [CompileSchema] and [Schema.Validate] check arguments against a tool's schema in
// bounded time, whatever the schema.
package agentproto
