// Package mcpserver offers the tools of a runtime to clients of MCP, the Model Context Protocol, in its revisions 2025-06-18,
// 2025-11-25 and 2026-07-28, over Streamable HTTP and over standard input and output.
//
//	server, err := mcpserver.New(mcpserver.Options{Calls: mcpserver.Of(rt), Sealer: sealer})
//	http.Handle("/mcp", server)
//
// # A task is a call
//
// A tools/call is one call of the runtime, and a task of the extension io.modelcontextprotocol/tasks is that call and nothing
// else: its taskId is the key of the call, sealed. The server stores nothing. So a task that a client was told of is there after
// any crash, of this server and of a durable runtime, under the same id.
//
// Which way a call goes depends on the request. A client that declares the extension gets a task, unless the call is resolved
// within [Options].Fast. A client of 2026-07-28 without it is held, and what the user is asked goes out as rounds of the same
// request, whose requestState is the same sealed key. A client of an older revision is held and asked with elicitation/create.
//
// What happens twice and what does not: a tools/call that is repeated by a client is another call, because nothing in MCP tells a
// repetition, unless both have the same _meta member io.millrace/idempotency-key, a string of 1 to 64 bytes: then the second is
// answered with the first one's task or result.
//
// A subscription that a call opens is a resource, millrace://subscriptions/ID with the call's id, to which the result has a link. It has
// the last events, is the same after any crash, and clients may be told of its changes. tasks/cancel of the task that is over ends it.
//
// # Who may do what
//
// [Options].Owner says who a request is from. Each owner has a thread of the runtime for its calls, for ever. A task of one owner does not
// exist for another one.
package mcpserver
