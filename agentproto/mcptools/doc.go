// Package mcptools makes tools of the agent tool protocol out of MCP servers: programs that speak MCP on
// their standard input and output, and servers of Streamable HTTP.
//
// [Open] takes a [Server] for each of them and returns a [Set]. Each becomes a
// [toolserver.Server] whose tools are those of the MCP server, so everything that
// holds for tools holds for them: a call survives this process, has one result, can be cancelled, and
// can ask the user. A runtime in the same process reaches them without a socket: see [Set.Local].
//
//	set, err := mcptools.Open(ctx, mcptools.Options{
//		State:   "/var/lib/agent/mcp",
//		Servers: []mcptools.Server{{Name: "files", Command: []string{"mcp-server-filesystem", "/srv"}}},
//	})
//	opts.Local = set.Local()          // host.Options
//	rt, err := host.Start(ctx, opts)
//	set.SetCallbacks(rt.Handler())
//
// # Once, or not at all
//
// MCP has no word for "the same call again". So a call that was sent to the MCP server is
// sent a second time only if its tool is read-only or idempotent, or the operator says so: [Repeat]. If the
// server, the connection or this process ends between the sending and the answer of any other
// call, its result says that it may have been carried out and was not repeated. What was not
// sent yet is sent after a restart, whatever the tool is.
// A call that the server surely has not carried out is sent again for 30 seconds: the connection was refused, or the
// server has answered 429, 503 with Retry-After, or 404 for a session.
//
// A server that has the extension io.modelcontextprotocol/tasks may make a task of a call. From then on the call is not sent
// again, and its result is that of the task, after a restart too.
//
// # What becomes of what
//
//	tools/list            the manifest; names begin with that of the server; one with other
//	                      characters than letters, digits, _ and -, or of more than 64, is changed
//	readOnlyHint …        the annotations; without hints a tool is destructive and not idempotent
//	text, image           text, image
//	audio, other bytes    a text that says what was left out
//	resource, link        a text with the URI
//	structuredContent     a text with the JSON, unless one has it already
//	isError, an error     a text that begins with "Error: "
//	progress              a view of the type mcp.progress, five times a second at most
//	elicitation           choices of the user: see below
//	tools/list_changed    another manifest, for sessions that begin then
//	resources             the tools list_resources, read_resource and, for a server that tells of changes, watch_resource: a
//	                      subscription with an event for each new text, one in 5 seconds at most
//	task                  the result that it ends with; its status message is a view of the type mcp.progress
//	cancellation          notifications/cancelled, and tasks/cancel
//
// A form that asks for up to five values, each yes or no or one of up to twenty, becomes so
// many choices, with Decline as the default of each. Any other form can be answered with its
// defaults, if it has one for everything that it requires, or declined. A form that asks for a password, a
// token, a key or a card is declined unseen.
//
// An address that the user is to open is shown as that of an authorization is, if it is one of https; others are
// declined. The call goes on when the server says that the user was there, or is sent again until the server carries it
// out. What a server of the newest version asks for before that is kept with the call, and outlives this process.
//
// # Programs
//
// A program is started when its tools are first asked for, in a group of processes of its own, and again when it has ended and somebody needs it; one that ends too
// often in a minute is given up until somebody begins anew. [Server].Idle has it stopped while nobody uses it, and [Server].PerUser starts one for each
// user, so that what a program keeps for one user is not another's. [Set.Status] says how each server is.
//
// # Servers that want a token
//
// If a server with a URL answers that it wants a token, the user of the call is asked to authorize access, and the call
// goes on afterwards. Users come back at [Set.Pages], for which [Options.PublicURL] is needed. Each user has tokens and a connection of
// their own. A server whose list of tools is refused without a token has one tool first, sign_in.
//
// # Security
//
// A program is started without a shell, with an environment of few variables, in a group of
// processes that is ended with it. What an MCP server says is a stranger's: names, descriptions and results are
// bounded, changes of its tools are logged with digests, [Server].Pin refuses tools that change, and its hints make a runtime more careful only. The tokens of this process are
// never sent to an MCP server.
package mcptools
