// Package tools implements the tool server's side of the agent tool protocol as a flow.
//
// A session is a state machine ([keyedstream.CallingMachine]) whose key is its [Place]. Its state
// contains the session's unfinished calls, with the messages that they have posted, and a short
// memory of the finished ones. Its inputs are [In] values:
//
//	handlers of requests ──┐                     ┌─ told: the answer to an In, by its token
//	tool functions ────────┼─► session ──────────┼─ alive, places, bars, grants, stops
//	transfers ─────────────┘    ▲   │            ├─ asked, answered: questions to users
//	                            │   ▼            └─ load: sums over all sessions
//	                          jobs: Outcome
//
// A step has no effect outside the flow. It starts a [Job], whose [Outcome] is a record like any
// other. A job that sends a message makes one attempt. Steps alone decide when the next attempt is
// due, in which order messages leave, what a repeated invocation gets and when a call is over.
//
// A job without an outcome when the process ended is done again by the next process.
package tools
