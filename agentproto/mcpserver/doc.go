// Package mcpserver offers the tools of a runtime to clients of MCP, the Model Context Protocol, in its revisions 2025-06-18,
// 2025-11-25 and 2026-07-28, over Streamable HTTP and over standard input and output.
//
//	server, err := mcpserver.New(mcpserver.Options{Calls: mcpserver.Of(rt), Sealer: sealer})
//	http.Handle("/mcp", server)
//
// # A task is a call
//
// A tools/call is one call of the runtime. A task of the extension io.modelcontextprotocol/tasks is that call and nothing else:
// its taskId is the sealed key of the call. The server stores nothing. So a task that a client knows of still exists, under the
// same id, after any crash of this server or of a durable runtime.
//
// The capabilities of the client decide how a call is answered. A client that declares the extension gets a task, unless the call
// is resolved within [Options].Fast. For a client of 2026-07-28 without the extension the server holds the request, and sends
// questions to the user as rounds of the same request, whose requestState is the same sealed key. For a client of an older
// revision the server holds the request and asks with elicitation/create.
//
// If a client repeats a tools/call, the repetition is another call, because nothing in MCP identifies it as a repetition. The
// exception is two requests with the same _meta member io.millrace/idempotency-key, a string of 1 to 64 bytes: the second is
// answered with the task or result of the first.
//
// If the connection of a held request breaks, the call is cancelled, because nobody can receive its result. A call with an
// idempotency key continues, because the client may repeat the request. Such a call is cancelled by notifications/cancelled,
// unless a repetition waits for its result. Over HTTP, a request of 2026-07-28 has no session in which the client could send this
// notification: a closed connection looks the same whether it broke or the client gave up. So such a call ends with its result or
// its timeout.
//
// A subscription that a call opens is a resource, millrace://subscriptions/ID with the call's id, and the result links to it. The
// resource contains the last events and is the same after any crash. Clients can be notified of its changes. tasks/cancel of the
// completed task ends the subscription.
//
// # Who may do what
//
// [Options].Owner returns the owner of a request. Each owner has its own, permanent thread of the runtime for its calls. For one
// owner the tasks of other owners do not exist.
package mcpserver
