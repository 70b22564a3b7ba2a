// Package tools is the tool server's side of the agent tool protocol as a flow.
//
// A session is a state machine ([keyedstream.CallingMachine]) whose key is its [Place]. Its
// state has the session's calls that are not finished, with the messages that they have
// posted, and what is remembered of the others. What comes from outside is an [In]:
//
//	handlers of requests ──┐                     ┌─ told: the answer to an In, by its token
//	tool functions ────────┼─► session ──────────┼─ alive, places, bars, grants, stops
//	transfers ─────────────┘    ▲   │            ├─ asked, answered: questions to users
//	                            │   ▼            └─ load: sums over all sessions
//	                          jobs: Outcome
//
// A step does nothing outside of the flow. It asks for a [Job], and the [Outcome] of that is a
// record like any other. A job that sends a message makes one attempt. When the next one is
// due, in which order messages leave, what a repeated invocation gets and when a call is over
// is decided by steps alone.
//
// A job that had no outcome when the process ended is done again by the next one.
package tools
