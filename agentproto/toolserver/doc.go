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
// A function sees its arguments, already checked, and returns a result or an
// error. Everything between is done here:
//
//	GET  /.well-known/rap-toolset   the manifest, with schemas made from Go types
//	POST /invoke                    a call: acknowledged at once, run, answered later
//	POST /cancel_tool_call          ends the function's context, or a subscription
//	POST /close_thread              ends those of a whole conversation
//	POST /tool_call_status          whether a call is alive, if [Options.Status] is set
//	POST /choice/{secret}           the answer to a question of [Choose]
//	POST /migrate                   a session goes to another instance, with a [Migrator]
//	GET  /oauth/start/{secret}      the page before the provider's, if wanted
//	GET  /oauth/callback/{provider} the user coming back from an OAuth provider
//
// A tool that goes on sending events after its result is added with
// [AddSubscription]. A function shows something with [View] and asks the user with
// [Choose].
//
// # What the package promises
//
// An invocation that was acknowledged is one call, however often the runtime
// repeats it within [Options.Remember]. It has one result or, after it was cancelled,
// none. What is wrong with a call is told in its result, whose text then starts with
// "Error: ".
//
// An invocation that is repeated with another callback_url has the call's messages go there
// from then on; the result too if it was delivered before, for as long as it is kept: up to
// 64 KiB of one result and 32 MiB of all. One that has the id of a call and another operation,
// other arguments or another user has an error result, which never takes the place of that
// call's own. The same id from two runtimes is two calls.
//
// The calls are a flow, as on the runtime's side: what happens to a session is a record, a step
// decides what becomes of it, and each attempt to send a message is a job whose outcome is a
// record again.
//
// With [Options.State], which is a folder, the history of the flow is kept there, and all this
// holds for a process that is killed at
// any moment. The acknowledgement leaves when the call is on the disk. When the
// server is started again, the function of a call without a result runs again, so it
// must be able to: [IdempotencyKey] is the same each time, and a tool with
// [ToolOptions.RunOnce] has an error for a result instead. Within one process a
// function runs once, or again after [ErrUnauthorized].
//
// Messages of one call arrive in their order. They are in the state before they are
// sent the first time. Delivery is tried again after connection errors, time-outs and
// the status codes 429 and 5xx, after 1, 5 and 30 seconds and then twice as long each
// time up to an hour, not before the runtime's Retry-After, for
// [Options.CallbackHorizon], and goes on in this schedule after a restart. Every
// attempt has the same webhook-id header, by which a runtime knows what it got twice:
// a message may arrive again if its acknowledgement was lost or the process ended
// just then. After 410 the call is closed, and its subscription. Other answers are
// final, a redirect too; they are logged. To one runtime there are 64 attempts at
// once, so that one which hangs holds up its own messages only.
//
// An event of a subscription and the state after it are kept together or not at all.
// So a producer that survives a restart neither leaves out an event nor sends it
// twice, if all that it goes by is in its state.
//
// A message is signed with the secrets of its runtime, if there are in
// [Options.Secrets]; [Signed] verifies the runtime's.
//
// A call that waits for a user goes on waiting for [Options.OAuthTimeout] or
// [Options.ChoiceTimeout] at most and then has an error for a result.
//
// The package puts tokens, codes and secrets into no message, page or log line. A text
// that a tool function has put one into, as it is, percent-encoded, escaped or in base64, is
// replaced by fixed words, and the rest of the message leaves. If nothing is left of a result,
// it is an error result. [Subscription.Send] and [Subscription.Save] return an error if the
// state has one in it (threat 23). What is looked for are values that a provider has issued, that the operator
// has configured or that the server has drawn; nothing that a request says is.
//
// Tokens in [Options.State], or in a [FileVault], are encrypted and bound to their
// user (threat 24). An authorization that a user is in the middle of goes on after a
// restart (case O23). A token is renewed once, however many calls need it, and saved
// before it is used.
//
// It connects to public addresses and to what its operator has named, and checks the
// address that a name has resolved to when it connects (threats 10, 13, 14 and 15).
//
// A session that moves is served by the source until the destination serves it, and
// by one of the two afterwards, also if one of them is killed meanwhile: /migrate is
// answered 200 when the destination does, and can be repeated (doc/protocol.md §10.1).
//
// # What it does not promise
//
// Without [Options.State] all is in memory. What was accepted and not yet answered when
// the process ends is then lost, unless [Server.Close] was given the time to finish
// it; the runtime's own timer resolves such a call.
//
// A message that was not delivered within the horizon is dropped. The history is not
// encrypted: it has arguments, results and callback addresses in it, and is readable by the
// user of the process only. Tokens and authorizations are in no history: they are in the vault,
// encrypted. One process has the folder at a time.
//
// The ancestors of a thread do not change. An invocation that says others than one before it
// is of another session, and so is not known as a repetition. A cancellation that comes more
// than a minute before its invocation has no effect.
//
// A token is recognized by its last 16 bytes. One of fewer than eight bytes, or of a few
// letters repeated, is not looked for, nor is one that a tool function has compressed,
// encrypted or cut the end off.
//
// Whoever opens an auth_url may authorize in place of the user of the call. That it is the
// same person is checked by the subject of the id_token ([OAuthProvider.SubjectIsUser]) or by
// a code that the user brings back ([OAuthProvider.Confirm]), and not at all with
// [OAuthProvider.UnsafeAnyoneMayAuthorize]; a provider without one of the three is refused. A
// user who tells the code to somebody else is not protected. Where PublicURL is https, unless
// [Options.NoStartPage] is set, the redirect must come to the browser that opened the start
// page; that does not say whose browser it is (case O24).
//
// A callback_url leads to public addresses, those of [Options.AllowNetworks] and
// [Options.CallbackOrigins] only. Whoever reaches the server can have it send results
// to any of them; one that is reachable by others than its runtimes should set
// [Options.CallbackOrigins] or [Options.Authenticate].
//
// A session that moves while its destination cannot be reached any more may for that
// time be served by neither instance; see decision 0020.
package toolserver
