// Package toolserver is the tool's side of the agent tool protocol: it turns typed
// Go functions into tools.
//
//	server := toolserver.New(toolserver.Options{
//		Name:      "arithmetic",
//		PublicURL: "https://tools.example.com",
//	})
//	toolserver.Add(server, "add", "Adds two numbers.",
//		func(ctx context.Context, in struct{ A, B int }) (int, error) {
//			return in.A + in.B, nil
//		})
//	front := &http.Server{
//		Addr: ":443", Handler: server, MaxHeaderBytes: 16 << 10,
//		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
//		WriteTimeout: 40 * time.Second, IdleTimeout: time.Minute,
//	}
//	err := front.ListenAndServeTLS("cert.pem", "key.pem")
//
// A tool function receives validated arguments and returns a result or an error. The server does everything
// between:
//
//	GET  /.well-known/rap-toolset   the manifest, with schemas made from Go types
//	POST /invoke                    a call: acknowledged at once, run, answered later
//	POST /cancel_tool_call          cancels the function's context, or ends a subscription
//	POST /close_thread              cancels all calls of a thread
//	POST /tool_call_status          whether a call is alive, if Options.Status is set
//	POST /choice/{secret}           the answer to a question of Choose
//	POST /migrate                   moves a session to another instance, with a Migrator
//	GET  /oauth/start/{secret}      the server's own page before the provider's
//	GET  /oauth/callback/{provider} the user coming back from an OAuth provider
//
// [AddSubscription] adds a tool that goes on sending events after its result. A function shows content with
// [View] and asks the user with [Choose].
//
// Threats and cases, such as threat 23 and case O23, are those of doc/threats.md and doc/protocol.md §14.
//
// # What the package promises
//
// An acknowledged invocation is one call, however often the runtime repeats it within [Options.Remember]. The
// call has one result, or none if it was cancelled. An error of the call is reported in its result, whose text
// then starts with "Error: ".
//
// If a runtime repeats an invocation with another callback_url, the call's messages go there from then on. A
// result that was already delivered is sent there too, as long as it is kept: up to 64 KiB of one result and
// 32 MiB of all. An invocation that reuses the id of a call with another operation, other arguments or another
// user gets an error result, which never replaces that call's own result. The same id from two runtimes is two
// calls.
//
// The calls are a flow, as on the runtime's side: every event of a session is a record, a step function
// handles each record, and each attempt to send a message is a job whose outcome is another record.
//
// [Options.State] names a folder in which the history of the flow is kept. With it, these promises hold even
// if the process is killed at any moment. The acknowledgement is sent once the call is on disk. After a
// restart, the server runs the function of every call without a result again, so the function must tolerate
// that: [IdempotencyKey] is the same each time. A call of a tool with [ToolOptions.RunOnce] gets an error
// result instead. Within one process a function runs once, or again after [ErrUnauthorized].
//
// The messages of one call arrive in order. They are in the state before they are first sent. Delivery is
// retried after connection errors, time-outs and the status codes 429 and 5xx: after 1, 5 and 30 seconds, and
// then after twice as long each time, up to an hour, but not before the runtime's Retry-After. It is retried
// for [Options.CallbackHorizon], and the schedule continues after a restart. Every attempt has the same
// webhook-id header, by which a runtime recognizes a duplicate: a message may arrive again if its
// acknowledgement was lost or the process ended just then. After 410 the call and its subscription are closed.
// Other answers, including redirects, are final and are logged. At most 64 attempts run at once for one
// runtime, so a runtime that hangs delays only its own messages.
//
// An event of a subscription and the state after it are stored atomically. So a producer that survives a
// restart neither skips an event nor sends one twice, provided that it depends only on its state.
//
// Messages to a runtime are signed with its secrets in [Options.Secrets], if it has any there; [Signed]
// verifies the runtime's requests.
//
// A call waits for a user for at most [Options.OAuthTimeout] or [Options.ChoiceTimeout], and then gets an
// error result.
//
// The package puts tokens, codes and secrets into no message, page or log line. If a tool function puts one
// into a text, as it is, percent-encoded, escaped or in base64, the text is replaced by fixed words and the
// rest of the message is sent. If nothing is left of a result, an error result is sent instead.
// [Subscription.Send] and [Subscription.Save] return an error if the state contains one (threat 23). The
// values searched for are those that a provider issued, the operator configured or the server generated;
// nothing from a request is.
//
// Tokens in [Options.State], or in a [FileVault], are encrypted and bound to their user (threat 24). An
// authorization that is in progress continues after a restart (case O23). A token is renewed once, however
// many calls need it, and saved before it is used.
//
// The server connects to public addresses and to those that its operator has named. It checks the address that
// a name resolved to when it connects (threats 10, 13, 14 and 15).
//
// A moving session is served by the source until the destination serves it, and by one of the two
// afterwards, even if one of them is killed meanwhile. /migrate is answered 200 once the destination serves
// the session, and can be repeated (doc/protocol.md §10.1).
//
// # What it does not promise
//
// Without [Options.State] everything is in memory. Calls that were accepted and not yet answered when the
// process ends are lost, unless [Server.Close] had the time to finish them; the runtime's own timer resolves
// such a call.
//
// A message that was not delivered within the horizon is dropped. The history is not encrypted: it contains
// arguments, results and callback addresses, and only the user of the process can read it. Tokens and
// authorizations are not in the history but in the vault, encrypted. Only one process may use the folder at a
// time.
//
// The ancestors of a thread must not change. An invocation with other ancestors than an earlier one belongs to
// another session, and so is not recognized as a repetition. A cancellation that arrives more than a minute
// before its invocation has no effect.
//
// A token is recognized by its last 16 bytes. The server does not search for a token that is shorter than
// eight bytes or consists of a few repeated letters, and does not find one that a tool function has
// compressed, encrypted or cut short.
//
// Anyone who opens an auth_url may authorize in place of the call's user. That it is the same person is
// checked by the subject of the id_token ([OAuthProvider.SubjectIsUser]) or by a code that the user brings
// back ([OAuthProvider.Confirm]), and not at all with [OAuthProvider.UnsafeAnyoneMayAuthorize]; a provider
// without one of the three is refused. A user who tells the code to somebody else is not protected. If
// PagesURL is https and [Options.NoStartPage] is not set, the redirect must come from the browser that opened
// the start page; that does not say whose browser it is (case O24).
//
// A callback_url may lead only to public addresses, to [Options.AllowNetworks] and to
// [Options.CallbackOrigins]. A client that can reach the server can make it send results to any of them. If
// others than its runtimes can reach the server, set [Options.CallbackOrigins] or [Options.Authenticate].
//
// A session that was moving when its destination became unreachable may be served by neither instance for that
// time; see decision 0020.
package toolserver
