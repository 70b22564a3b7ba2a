// Package host is the runtime's side of the agent tool protocol: it makes the
// tool calls of a conversation.
//
//	rt, err := host.Start(ctx, host.Options{Toolsets: []string{"http://127.0.0.1:8080"}})
//	if err != nil {
//		return err
//	}
//	defer rt.Stop(ctx)
//	key, err := rt.Call(ctx, host.Request{
//		GroupID: "conversation-1", Operation: "add", Arguments: []byte(`{"a":1,"b":2}`),
//	})
//	if err != nil {
//		return err
//	}
//	resolution, err := rt.Await(ctx, key)
//
// A tool server acknowledges a call and posts what comes of it later, to a callback
// URL that was made for this call. On the way the tool may send the user to authorize
// it, or ask the user to choose; the [Surface] shows that. The conversation sees a
// call that took longer.
//
// With [Options].Model the runtime has the conversation as well, over restarts if it is
// kept: see [Runtime.OpenSession] and package conversation.
//
// # What the package promises
//
// Each call is resolved once. What a tool server sends after that has no effect, and
// neither has a tool server that says nothing: every wait has an end, see
// [Timeouts]. A result that arrives before the acknowledgement counts. A resolution can be read for
// a day, see [Options].Conversation; then the call is forgotten.
//
// An invocation may be posted several times with the same identifiers, if it is not
// known whether an earlier attempt arrived. It is never posted again after the call
// was resolved.
//
// A callback URL is good for one call of one tool server. It cannot be forged, nor
// turned to another call, nor to a later call with the same key, and it expires.
//
// A tool server that hangs, fails or lies affects its own calls only.
//
// A tool server that sends too much is put off, or events of its own are left out and the
// next one tells how many: see [Bounds]. Nobody else is put off by it. Requests go to public
// addresses, encrypted, and to what [Options] name, wherever a tool server would have them
// sent.
//
// Several processes that share one [Options].State on servers divide the sessions. A callback,
// or a call of a method here, may come to any of them, but prompts and views are known to
// the process that has the session.
//
// With [Options].State a call that was made and a callback that was answered 200 survive the
// process, with conversations, prompts, subscriptions and migrations under way.
//
// With [Options].MigrationKey a session can move to another runtime: see [Runtime.Migrate].
// It is whole at one of the two hosts whichever of them crashes when, and of both together
// each call is resolved once. What tools post to the old callback URLs is handed on.
//
// # What it does not promise
//
// Without [Options].State nothing survives the process, and a migration that it interrupts
// may leave the session frozen. Without [Options].Secrets who has got hold of a callback URL
// is believed.
//
// A session that was sent and whose destination does not answer any more stays frozen until
// it does: only the destination knows whether it has it. The source has to stay up for as
// long as tools use its callback URLs.
package host
