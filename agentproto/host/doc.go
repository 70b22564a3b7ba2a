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
// A tool server acknowledges a call and posts the outcome later, to a callback URL that was made for this call. In between the
// tool may send the user to authorize it, or ask the user to choose; the [Surface] shows that. The conversation sees a call that
// took longer.
//
// With [Options].Model the runtime also holds the conversation, across restarts if it has an [Options].State: see
// [Runtime.OpenSession] and package conversation. Cases, such as V01, are those of doc/protocol.md §14.
//
// # Guarantees
//
// Each call is resolved once. Later messages of a tool server have no effect. A tool server that stays silent cannot block a
// call: every wait has an end, see [Timeouts]. A result that arrives before the acknowledgement counts. A resolution can be read
// for a day, see [Options].Conversation; then the call is forgotten.
//
// An invocation may be posted several times with the same identifiers, if it is unknown whether an earlier attempt arrived. It is
// never posted again after the call was resolved.
//
// A callback URL is valid for one call of one tool server. It cannot be forged, nor used for another call or for a later call
// with the same key, and it expires.
//
// A tool server that hangs, fails or lies affects its own calls only.
//
// A tool server that sends too much is answered 503, or some of its own events are dropped and the next event says how many: see
// [Bounds]. Other tool servers are not affected. Requests are sent encrypted to public addresses, or to what [Options] allow,
// whatever address a tool server names.
//
// Several processes that share one [Options].State on servers divide the sessions among them. A callback, or a call of a method
// of this package, may arrive at any of them, but only the process that has the session knows its prompts and views.
//
// With [Options].State a call that was made and a callback that was answered 200 survive the process, and so do conversations,
// prompts, subscriptions and running migrations.
//
// With [Options].MigrationKey a session can move to another runtime: see [Runtime.Migrate]. Whichever host crashes at whatever
// time, one of the two has the whole session, and together they resolve each call once. What tools post to the old callback URLs
// is forwarded.
//
// # Limitations
//
// Without [Options].State nothing survives the process, and a migration that is interrupted by its end may leave the session
// frozen. Without [Options].Secrets anyone who has a callback URL can use it.
//
// If the destination of a migration stops answering after the session was sent, the session stays frozen until it answers again:
// only the destination knows whether it has the session. The source has to stay up for as long as tools use its callback URLs.
package host
