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
//	http.ListenAndServeTLS(":443", "cert.pem", "key.pem", server)
//
// A function sees its arguments, already checked, and returns a result or an
// error. Everything between is done here:
//
//	GET  /.well-known/rap-toolset   the manifest, with schemas made from Go types
//	POST /invoke                    a call: acknowledged at once, run, answered later
//	POST /cancel_tool_call          ends the function's context
//	POST /close_thread              ends those of a whole conversation
//	POST /choice/{secret}           the answer to a question of [Choose]
//	GET  /oauth/start/{secret}      the page before the provider's, if wanted
//	GET  /oauth/callback/{provider} the user coming back from an OAuth provider
//
// # What the package promises
//
// An invocation that was acknowledged is one call, however often the runtime
// repeats it within [Options.Remember]. Its function runs once, or again after
// [ErrUnauthorized]; it has one result or, after it was cancelled, none. What is
// wrong with a call is told in its result, whose text then starts with "Error: ".
//
// Messages of one call arrive in their order. Delivery is tried again after
// connection errors, time-outs and the status codes 429 and 5xx, after 1, 5 and 30
// seconds and then twice as long each time up to an hour, not before the runtime's
// Retry-After, for [Options.CallbackHorizon]. Every attempt has the same
// webhook-id header. Other answers are final, a redirect too; they are logged.
//
// A call that waits for a user goes on waiting for [Options.OAuthTimeout] or
// [Options.ChoiceTimeout] at most and then has an error for a result.
//
// The package puts tokens, codes and secrets into no message, page or log line. A
// message that a tool function has put one into, as it is, percent-encoded, escaped or
// in base64, is withheld (threat 23).
//
// Tokens in [Options.State], or in a [FileVault], are encrypted and bound to their
// user (threat 24). An authorization that a user is in the middle of goes on after a
// restart (case O23). A token is renewed once, however many calls need it, and saved
// before it is used.
//
// # What it does not promise
//
// Calls, messages and tokens are in memory. What was accepted and not yet answered
// when the process ends is lost, unless [Server.Close] was given the time to finish
// it; the runtime's own timer resolves such a call.
//
// Tokens shorter than eight bytes are not looked for in messages, nor are ones that a
// tool function has compressed, encrypted or taken apart.
//
// Whoever opens an auth_url authorizes for the user of the call. That it is the same
// browser, or the same person, is checked if [Options.StartPage],
// [OAuthProvider.SubjectIsUser] or [OAuthProvider.Confirm] say so (case O24).
//
// The address of a callback_url is checked against [Options.CallbackOrigins] only.
// A server that is reachable by others than its runtimes should set it, or
// [Options.Authenticate].
package toolserver
