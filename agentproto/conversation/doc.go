// Package conversation holds the conversations of a user, a model and tools: threads, each a state machine in the same flow as
// their tool calls. Programs use it through package host:
//
//	rt, err := host.Start(ctx, host.Options{Toolsets: toolsets, Model: model})
//	if err != nil {
//		return err
//	}
//	thread, err := rt.OpenSession(ctx, host.SessionRequest{ID: "session-1", UserID: "ada"})
//	if err != nil {
//		return err
//	}
//	if err := thread.Say(ctx, "What is on my calendar?"); err != nil {
//		return err
//	}
//	for m, err := range thread.Follow(ctx, 0) {
//		…
//	}
//
// Cases, such as K01, are those of doc/protocol.md §14. They say how such a conversation is tested.
//
// # A turn
//
//	user ──say──► thread ──ask──► model
//	                ▲               │ text: the turn is over
//	                │               ▼ calls
//	                └──results── all calls at once ──► tool servers
//
// The inputs of one thread are handled one by one, and threads do not wait for each other (cases L01, L02). All calls of a reply
// are made at once. When each has its result, the model is asked again and sees the results in the order of the calls.
//
// # Interruptions and events
//
// A message of the user interrupts: the running request to the model is abandoned, pending calls are cancelled, and each gets a
// result that says so (case K01).
//
// When every pending call waits for the user to authorize a tool, the model gets a message to that effect in place of the results
// and goes on (doc/protocol.md §6.5, case O01). A message of the user does not cancel these calls. Their results follow when they
// arrive.
//
// Such late results, and the events of subscriptions, are shown to the model as a call of [EventTool] that it did not make, and
// its result. They wait, in order, while the model is asked and while calls are pending, and survive a restart (cases S07, S08).
// An event that is not associative goes to a child thread, one for each subscription (case S02).
//
// A model that fails is asked again after 1, 2, 5, 10, 20 and 30 s, or later if it asks for that. Then a [Notice] in the history
// tells the user, and the thread waits for its next input.
//
// # The history
//
// A history only grows. It holds exactly what the model is shown: texts are cut at [Limits].Text, and an image is replaced by a
// description if the model takes no images or the image is unusable (cases R02 to R04, R14). An identifier that the model uses
// again is replaced by a new one (case I14). A call has the tool's own name. If the model used another name, the call keeps that
// too ([Call].Alias), and the model is shown it from then on. Views are not part of the history; the last content of each type is
// kept separately.
//
// # Guarantees of actions
//
// What a thread wants done is an [Action], performed by an [Agent] at least once. In a durable flow an action without a recorded
// outcome is performed again after a crash: the model may be asked twice, but a call is made once.
package conversation
