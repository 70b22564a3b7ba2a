// Package mcptools turns MCP servers into tools of the agent tool protocol. The servers are programs that speak MCP on their
// standard input and output, and servers of Streamable HTTP.
//
// [Open] takes a [Server] for each of them and returns a [Set]. Each becomes a [toolserver.Server] with the tools of the MCP
// server, so the guarantees for tools apply: a call survives this process, has one result, can be cancelled, and can ask the
// user. A runtime in the same process reaches them without a socket: see [Set.Local].
//
//	set, err := mcptools.Open(ctx, mcptools.Options{
//		State:   "/var/lib/agent/mcp",
//		Servers: []mcptools.Server{{Name: "files", Command: []string{"mcp-server-filesystem", "/srv"}}},
//	})
//	opts.Local = set.Local()          // host.Options
//	rt, err := host.Start(ctx, opts)
//	set.SetCallbacks(rt.Handler())
//
// # At most once
//
// MCP has no way to repeat a call as the same call. So a call that was sent to the MCP server is sent again only if its tool is
// read-only or idempotent, or if the operator says so: see [Repeat]. If the server, the connection or this process fails between
// sending any other call and its answer, the result says that the call may have been carried out and was not repeated. A call
// that was not sent yet is sent after a restart, whatever its tool.
//
// A call that the server certainly has not carried out is sent again for 30 seconds: the connection was refused, or the server
// has answered 429, 503 with Retry-After, or 404 for a session.
//
// A server with the extension io.modelcontextprotocol/tasks may turn a call into a task. From then on the call is not sent again,
// even after a restart, and its result is that of the task.
//
// # How MCP is mapped
//
//	tools/list            the manifest; names begin with that of the server; a name that is longer than 64
//	                      or has characters other than letters, digits, _ and - is changed
//	readOnlyHint …        the annotations; without hints a tool is destructive and not idempotent
//	text, image           text, image
//	audio, other bytes    a text that says what was left out
//	resource, link        a text with the URI
//	structuredContent     a text with the JSON, unless another text has it already
//	isError, an error     a text that begins with "Error: "
//	progress              a view of the type mcp.progress, at most five times a second
//	elicitation           choices of the user: see below
//	tools/list_changed    a new manifest, for sessions that begin after it
//	resources             the tools list_resources, read_resource and, if the server announces changes, watch_resource: a
//	                      subscription with an event for each new text, at most one in 5 seconds
//	task                  its final result; its status message is a view of the type mcp.progress
//	cancellation          notifications/cancelled, and tasks/cancel
//
// A form that asks for up to five values, each yes or no or one of up to twenty, becomes one choice per value, with Decline as
// the default of each. Any other form can be declined, or answered with its defaults if every required value has one. A form that
// asks for a password, a token, a key or a card is declined without asking the user.
//
// An address that the user should open is shown like that of an authorization if it is https; other addresses are declined. The
// call continues when the server says that the user was there, or is sent again until the server carries it out. Requests for
// input that a server of the newest version makes before it carries the call out are stored with the call, and survive this
// process.
//
// # Programs
//
// A program is started when its tools are first requested, in its own process group, and is restarted on demand after it has
// ended. A program that ends too often within a minute is given up until the manifest is requested again. [Server].Idle stops a
// program that is not in use. [Server].PerUser starts one program for each user, so that a program does not mix the data of its
// users. [Set.Status] reports the state of each server.
//
// # Servers that want a token
//
// If a server with a URL asks for a token, the user of the call is asked to authorize access, and then the call continues. Users
// return to [Set.Pages], which requires [Options.PublicURL]. Each user has their own tokens and connection. A server that refuses
// its list of tools without a token has one tool at first, sign_in.
//
// # Security
//
// A program is started without a shell, with an environment of few variables, in a process group that is ended with it.
// Everything that an MCP server sends is untrusted: names, descriptions and results are bounded, changes of its tools are logged
// with digests, [Server].Pin refuses tools that change, and its hints can only make a runtime more careful. The tokens of this
// process are never sent to an MCP server.
package mcptools
