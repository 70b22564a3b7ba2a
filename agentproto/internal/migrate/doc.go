// Package migrate moves sessions from one instance of a tool server to another (doc/protocol.md
// §10.1).
//
// A [Mover] plays both sides. As the source it freezes a session, sends its state to the
// destination and asks the destination to serve it. As the destination it stages the state and
// serves it on request. The flow decides which of the two has the session, see package handover. A
// mover does the work between the decisions: the messages, which are sealed, and the tools' own
// state of a session. Jobs of the flow settle what a process did not finish.
package migrate
