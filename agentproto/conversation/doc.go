// Package conversation is the conversation of a user, a model and tools: threads, as a state
// machine in the flow of their calls. Package runtime has it for programs:
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
// # A turn
//
//	user ──say──► thread ──ask──► model
//	                ▲               │ text: the turn is over
//	                │               ▼ calls
//	                └──results── all calls at once ──► tool servers
//
// What happens in one thread is handled one by one, and threads do not wait for each other
// (cases L01, L02). The calls of a reply are all made at once; the model is asked again when
// each has its result, and sees the results in the order of the calls.
//
// # What comes in between
//
// What the user says interrupts: the model's answer is not waited for and has no effect any
// more, pending calls are cancelled, and each has one result that says so (case K01).
//
// When everything that is still pending waits for the user to authorize a tool, the model
// is told so in the place of the results and goes on (doc/protocol.md §6.5, case O01). What the
// user says does not cancel these calls. Their results follow when they are there.
//
// Those, and the events of subscriptions, are shown to the model as a call of [EventTool] and
// its result, which it did not make. They wait while the model is asked and while calls
// are pending, in order, also over a restart (cases S07, S08). An event that is not
// associative goes into a child thread, one for each subscription (case S02).
//
// A model that fails is asked again after 1, 2, 5, 10, 20 and 30 s, or later if it says so.
// Then a [Notice] in the history tells the user, and the thread waits for what comes next.
//
// # The history
//
// A history only grows. It is what the model is shown, word for word: texts are cut at
// [Limits].Text, and images are described where the model takes none or they cannot be
// shown (cases R02 to R04, R14). An identifier that the model uses again is replaced by a
// new one (case I14). A call has the tool's own name. If the model used another one, the call has
// that too ([Call].Alias), and the model is shown it from then on. Views are not part of the
// history; the last of each type is kept beside it.
//
// # What is done at least once
//
// What a thread wants done is an entry of its own, performed by an [Agent]. Where the flow
// is kept, an action without an outcome is performed again after a crash: the model may be
// asked twice, a call is still made once.
package conversation
