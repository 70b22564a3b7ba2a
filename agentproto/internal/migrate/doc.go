// Package migrate moves sessions from one instance of a tool server to another (doc/protocol.md
// §10.1).
//
// A [Mover] is both sides. As the source it freezes a session, brings its state to the destination
// and asks that to serve it; as the destination it stages what comes and serves it when it is told
// to. Which of the two has the session is decided by the flow, see package handover; a mover does
// what lies between: the messages, which are sealed, and what tools keep of a session. What a
// process did not finish is settled by jobs of the flow.
package migrate
